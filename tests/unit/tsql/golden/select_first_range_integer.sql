-- hi0 = '1000001'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [id] < CAST(%(hi0)s AS bigint)
