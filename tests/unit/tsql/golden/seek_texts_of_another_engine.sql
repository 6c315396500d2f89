-- lo0 = 'a'
SELECT TOP (1) CAST(d.[__$k0] AS nvarchar(5)) AS k0, CAST(d.[__$k1] AS nvarchar(20)) AS k1,
       d.[__$n] AS keys_read,
       0 AS is_lower
FROM (
SELECT TOP (1000001) [c nchar(5)] AS [__$k0], [c nvarchar(20)] AS [__$k1],
       ROW_NUMBER() OVER (ORDER BY [c nchar(5)], [c nvarchar(20)]) AS [__$n]
FROM [dbo].[orders]
WHERE [c nchar(5)] > CAST(%(lo0)s AS nchar(5)) COLLATE SQL_Latin1_General_CP1_CI_AS
ORDER BY [c nchar(5)], [c nvarchar(20)]
) AS d
ORDER BY d.[__$n] DESC
