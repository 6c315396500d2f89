-- after = '0x00000025000005A80003'
SELECT TOP (1) 1 AS found
FROM [cdc].[dbo_orders_CT] AS c
WHERE c.[__$start_lsn] > CONVERT(binary(10), %(after)s, 1)
