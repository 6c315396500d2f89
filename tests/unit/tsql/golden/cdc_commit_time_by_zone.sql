-- lsn = '0x00000025000005A80003'
-- zone = 'W. Europe Standard Time'
SELECT CONVERT(varchar(23), m.local_time, 126) AS local_time,
       CONVERT(varchar(23), CAST(m.local_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3)), 126) AS utc_time,
       CASE WHEN CAST(DATEADD(hour, 2, CAST(m.local_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3))) AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(3))
            < DATEADD(hour, 2, CAST(m.local_time AS datetime2(3))) THEN 1 ELSE 0 END AS near_change
FROM (SELECT sys.fn_cdc_map_lsn_to_time(CONVERT(binary(10), %(lsn)s, 1)) AS local_time) AS m
