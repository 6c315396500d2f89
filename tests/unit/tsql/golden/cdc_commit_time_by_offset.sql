-- lsn = '0x00000025000005A80003'
SELECT CONVERT(varchar(23), m.local_time, 126) AS local_time,
       CONVERT(varchar(23), CAST(DATEADD(minute, -DATEPART(tzoffset, SYSDATETIMEOFFSET()), m.local_time) AS datetime2(3)), 126) AS utc_time,
       0 AS near_change
FROM (SELECT sys.fn_cdc_map_lsn_to_time(CONVERT(binary(10), %(lsn)s, 1)) AS local_time) AS m
