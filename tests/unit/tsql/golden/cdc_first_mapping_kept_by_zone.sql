-- instance = 'dbo_orders'
-- zone = 'W. Europe Standard Time'
SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CONVERT(varchar(23), CAST(m.tran_end_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3)), 126) AS utc_time,
       CASE WHEN CAST(DATEADD(hour, 2, CAST(m.tran_end_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3))) AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(3))
            < DATEADD(hour, 2, CAST(m.tran_end_time AS datetime2(3))) THEN 1 ELSE 0 END AS near_change
FROM cdc.lsn_time_mapping AS m
WHERE m.start_lsn >= sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128)))
ORDER BY m.start_lsn
