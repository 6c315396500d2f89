-- k0 = '1'
-- k1 = '2'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [id] IN (CAST(%(k0)s AS bigint), CAST(%(k1)s AS bigint))
