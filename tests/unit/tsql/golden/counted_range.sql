-- lo0 = '1000001'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [id] >= CAST(%(lo0)s AS bigint);
SELECT ROWCOUNT_BIG() AS [__$sent]
