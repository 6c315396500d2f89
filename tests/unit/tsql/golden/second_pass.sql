-- begins = '2026-10-25T02:00:00'
-- early = '2026-10-25T02:20:00'
-- late = '2026-10-25T02:40:00'
-- ends = '2026-10-25T03:00:00'
SELECT CONVERT(varchar(22), MIN(m.start_lsn), 1) AS lsn
FROM cdc.lsn_time_mapping AS m
WHERE m.tran_end_time >= CAST(%(begins)s AS datetime)
  AND m.tran_end_time < CAST(%(early)s AS datetime)
  AND m.start_lsn > (SELECT MIN(p.start_lsn) FROM cdc.lsn_time_mapping AS p
                     WHERE p.tran_end_time >= CAST(%(late)s AS datetime)
                       AND p.tran_end_time < CAST(%(ends)s AS datetime))
