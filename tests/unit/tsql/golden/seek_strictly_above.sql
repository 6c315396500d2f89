-- lo0 = 'n'
-- lo1 = '3'
SELECT TOP (1) CONVERT(varchar(20), d.[__$k1]) AS k1,
       d.[__$n] AS keys_read,
       0 AS is_lower
FROM (
SELECT TOP (1000001) [n] AS [__$k1],
       ROW_NUMBER() OVER (ORDER BY [n]) AS [__$n]
FROM [dbo].[orders]
WHERE [code] = CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND [n] > CAST(%(lo1)s AS int)
ORDER BY [n]
) AS d
ORDER BY d.[__$n] DESC
