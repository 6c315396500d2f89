-- after = '0x00000025000005A80003'
-- until = '0x00000025000006100001'
SELECT c.[__$start_lsn] AS [_start_lsn], c.[__$seqval] AS [_seqval],
       c.[__$operation] AS [_operation], c.[__$command_id] AS [_command_id],
       [Entry No_] AS [Entry_x0020_No_],
       CAST([100%% ]]x[] AS decimal(19,4)) AS [100%%_x0020_]]x[],
       CONVERT(varchar(16), CAST([a_x0020_b] AS time(7)), 121) AS [a_x005F_x0020_b]
FROM [cdc].[dbo_orders_CT] AS c
WHERE c.[__$start_lsn] > CONVERT(binary(10), %(after)s, 1)
  AND c.[__$start_lsn] <= CONVERT(binary(10), %(until)s, 1)
ORDER BY c.[__$start_lsn], c.[__$command_id], c.[__$seqval], c.[__$operation]
