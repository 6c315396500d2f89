-- hi0 = '7'
-- hi1 = '2024-01-01 00:00:00.0000001'
-- hi2 = '3'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] < CAST(%(hi0)s AS int)
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(hi0)s AS int)
  AND [entry] < CAST(%(hi1)s AS datetime2(7))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(hi0)s AS int)
  AND [entry] = CAST(%(hi1)s AS datetime2(7))
  AND ([line] < CAST(%(hi2)s AS smallint) OR [line] IS NULL)
