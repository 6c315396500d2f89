-- after = '0x00000025000005A80003'
-- until = '0x00000025000006100001'
-- zone = 'W. Europe Standard Time'
SELECT TOP (1000) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,
       CAST(m.tran_end_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3)) AS utc_time,
       CASE WHEN CAST(DATEADD(hour, 2, CAST(m.tran_end_time AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3))) AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(3))
            < DATEADD(hour, 2, CAST(m.tran_end_time AS datetime2(3))) THEN 1 ELSE 0 END AS near_change
FROM cdc.lsn_time_mapping AS m
WHERE m.start_lsn > CONVERT(binary(10), %(after)s, 1)
  AND m.start_lsn <= CONVERT(binary(10), %(until)s, 1)
ORDER BY m.start_lsn
