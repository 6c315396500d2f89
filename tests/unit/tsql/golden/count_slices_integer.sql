-- lo0 = '1'
-- hi0 = '900'
SELECT g.[__$slice] AS slice, COUNT_BIG(*) AS row_count
FROM (
SELECT (CAST([id] AS bigint) - CAST(CAST(%(lo0)s AS bigint) AS bigint)) / CAST(100 AS bigint) AS [__$slice]
FROM [dbo].[orders]
WHERE [id] >= CAST(%(lo0)s AS bigint) AND [id] <= CAST(%(hi0)s AS bigint)
) AS g
GROUP BY g.[__$slice]
ORDER BY g.[__$slice]
