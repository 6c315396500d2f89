-- after = '0x00000025000005A80003'
-- until = '0x00000025000006100001'
SELECT c.[__$start_lsn] AS [_start_lsn], c.[__$seqval] AS [_seqval],
       c.[__$operation] AS [_operation], CAST(NULL AS int) AS [_command_id],
       [id] AS [id]
FROM [cdc].[dbo_orders_CT] AS c
WHERE c.[__$start_lsn] > CONVERT(binary(10), %(after)s, 1)
  AND c.[__$start_lsn] <= CONVERT(binary(10), %(until)s, 1)
ORDER BY c.[__$start_lsn], c.[__$seqval], c.[__$operation]
