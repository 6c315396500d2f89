-- instance = 'dbo_orders'
SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CONVERT(varchar(23), CAST(DATEADD(minute, -DATEPART(tzoffset, SYSDATETIMEOFFSET()), m.tran_end_time) AS datetime2(3)), 126) AS utc_time,
       0 AS near_change
FROM cdc.lsn_time_mapping AS m
WHERE m.start_lsn >= sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128)))
ORDER BY m.start_lsn
