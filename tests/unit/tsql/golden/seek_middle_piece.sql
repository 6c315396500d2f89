-- lo0 = '7'
-- lo1 = '2024-01-01 00:00:00.0000001'
SELECT TOP (1) CONVERT(varchar(27), d.[__$k1], 121) AS k1, CONVERT(varchar(20), d.[__$k2]) AS k2,
       d.[__$n] AS keys_read,
       0 AS is_lower
FROM (
SELECT TOP (1000001) [entry] AS [__$k1], [line] AS [__$k2],
       ROW_NUMBER() OVER (ORDER BY [entry], [line]) AS [__$n]
FROM [dbo].[orders]
WHERE [company] = CAST(%(lo0)s AS int)
  AND [entry] > CAST(%(lo1)s AS datetime2(7))
ORDER BY [entry], [line]
) AS d
ORDER BY d.[__$n] DESC
