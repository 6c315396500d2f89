-- after = '0x00000025000005A80003'
-- until = '0x00000025000006100001'
SELECT TOP (1000) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CAST(DATEADD(minute, -DATEPART(tzoffset, SYSDATETIMEOFFSET()), m.tran_end_time) AS datetime2(3)) AS utc_time,
       0 AS near_change
FROM cdc.lsn_time_mapping AS m
WHERE m.start_lsn > CONVERT(binary(10), %(after)s, 1)
  AND m.start_lsn <= CONVERT(binary(10), %(until)s, 1)
ORDER BY m.start_lsn
