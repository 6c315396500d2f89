-- lo0 = '7'
SELECT TOP (1) CONVERT(varchar(20), d.[__$k0]) AS k0, CONVERT(varchar(27), d.[__$k1], 121) AS k1, CONVERT(varchar(20), d.[__$k2]) AS k2,
       d.[__$n] AS keys_read,
       0 AS is_lower
FROM (
SELECT TOP (1000001) [company] AS [__$k0], [entry] AS [__$k1], [line] AS [__$k2],
       ROW_NUMBER() OVER (ORDER BY [company], [entry], [line]) AS [__$n]
FROM [dbo].[orders]
WHERE [company] > CAST(%(lo0)s AS int)
ORDER BY [company], [entry], [line]
) AS d
ORDER BY d.[__$n] DESC
