SELECT TOP (1) CAST(CAST(d.[__$k0] AS nvarchar(40)) AS varbinary(80)) AS k0, CONVERT(varchar(18), CAST(d.[__$k1] AS binary(8)), 1) AS k1,
       d.[__$n] AS keys_read,
       0 AS is_lower
FROM (
SELECT TOP (1000001) [region] AS [__$k0], [stamp] AS [__$k1],
       ROW_NUMBER() OVER (ORDER BY [region], [stamp]) AS [__$n]
FROM [dbo].[orders]
WHERE [region] IS NOT NULL
ORDER BY [region], [stamp]
) AS d
ORDER BY d.[__$n] DESC
