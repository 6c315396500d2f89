SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CONVERT(varchar(23), CAST(DATEADD(minute, -DATEPART(tzoffset, SYSDATETIMEOFFSET()), m.tran_end_time) AS datetime2(3)), 126) AS utc_time,
       0 AS near_change,
       CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_now
FROM cdc.lsn_time_mapping AS m
ORDER BY m.start_lsn DESC
