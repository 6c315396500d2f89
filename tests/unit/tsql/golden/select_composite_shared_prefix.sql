-- lo0 = '7'
-- lo1 = '2024-01-01 00:00:00.0000001'
-- hi1 = '2024-03-01 12:30:00.9999999'
-- hi0 = '7'
-- hi2 = '4'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(lo0)s AS int)
  AND [entry] = CAST(%(lo1)s AS datetime2(7))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(lo0)s AS int)
  AND [entry] > CAST(%(lo1)s AS datetime2(7))
  AND [entry] < CAST(%(hi1)s AS datetime2(7))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(hi0)s AS int)
  AND [entry] = CAST(%(hi1)s AS datetime2(7))
  AND ([line] < CAST(%(hi2)s AS smallint) OR [line] IS NULL)
