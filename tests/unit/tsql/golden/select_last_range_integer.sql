-- lo0 = '2000001'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [id] >= CAST(%(lo0)s AS bigint)
