SELECT CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_time,
       CONVERT(varchar(27), SYSDATETIME(), 126) AS local_time,
       DATEPART(tzoffset, SYSDATETIMEOFFSET()) AS utc_offset_minutes
