-- lo0 = '2024-01-01T00:00:00.003'
SELECT TOP (1) CONVERT(varchar(23), d.[__$k0], 126) AS k0,
       d.[__$n] AS keys_read,
       CASE WHEN d.[__$k0] = CAST(%(lo0)s AS datetime) THEN 1 ELSE 0 END AS is_lower
FROM (
SELECT TOP (1000001) [at] AS [__$k0],
       ROW_NUMBER() OVER (ORDER BY [at]) AS [__$n]
FROM [dbo].[orders]
WHERE [at] >= CAST(%(lo0)s AS datetime)
ORDER BY [at]
) AS d
ORDER BY d.[__$n] DESC
