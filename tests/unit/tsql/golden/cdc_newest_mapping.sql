SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CONVERT(varchar(23), DATEADD(minute, -DATEPART(tzoffset, SYSDATETIMEOFFSET()), m.tran_end_time), 126) AS utc_time,
       DATEDIFF(second, m.tran_end_time, GETDATE()) AS age_seconds
FROM cdc.lsn_time_mapping AS m
ORDER BY m.start_lsn DESC
