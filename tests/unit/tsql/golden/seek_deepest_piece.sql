-- lo0 = '7'
-- lo1 = '2024-01-01 00:00:00.0000001'
-- lo2 = '3'
SELECT TOP (1) CONVERT(varchar(20), d.[__$k2]) AS k2,
       d.[__$n] AS keys_read,
       CASE WHEN d.[__$k2] = CAST(%(lo2)s AS smallint) THEN 1 ELSE 0 END AS is_lower
FROM (
SELECT TOP (1000001) [line] AS [__$k2],
       ROW_NUMBER() OVER (ORDER BY [line]) AS [__$n]
FROM [dbo].[orders]
WHERE [company] = CAST(%(lo0)s AS int)
  AND [entry] = CAST(%(lo1)s AS datetime2(7))
  AND [line] >= CAST(%(lo2)s AS smallint)
ORDER BY [line]
) AS d
ORDER BY d.[__$n] DESC
