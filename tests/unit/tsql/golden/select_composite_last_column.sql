-- lo0 = '7'
-- lo1 = '2024-01-01 00:00:00.0000001'
-- lo2 = '3'
-- hi2 = '4'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [company] = CAST(%(lo0)s AS int)
  AND [entry] = CAST(%(lo1)s AS datetime2(7))
  AND [line] >= CAST(%(lo2)s AS smallint)
  AND [line] < CAST(%(hi2)s AS smallint)
