-- lsn = '0x00000025000005A80003'
-- local = '2024-03-31T01:15:30'
SELECT CONVERT(varchar(22), MIN(m.start_lsn), 1) AS lsn
FROM cdc.lsn_time_mapping AS m
WHERE m.start_lsn > CONVERT(binary(10), %(lsn)s, 1)
  AND m.tran_end_time >= CAST(%(local)s AS datetime)
