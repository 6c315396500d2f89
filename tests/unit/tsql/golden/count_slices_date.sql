-- lo0 = '2024-01-01'
-- hi0 = '2024-12-31'
SELECT g.[__$slice] AS slice, COUNT_BIG(*) AS row_count
FROM (
SELECT DATEDIFF(day, CAST(%(lo0)s AS date), [day]) / CAST(7 AS bigint) AS [__$slice]
FROM [dbo].[orders]
WHERE [day] >= CAST(%(lo0)s AS date) AND [day] <= CAST(%(hi0)s AS date)
) AS g
GROUP BY g.[__$slice]
ORDER BY g.[__$slice]
