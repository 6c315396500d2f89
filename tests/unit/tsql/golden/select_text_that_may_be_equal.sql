-- lo0 = 'n'
-- lo1 = '3'
-- hi0 = 'N'
-- hi1 = '8'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [code] = CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND [n] >= CAST(%(lo1)s AS int)
  AND CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) < CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [code] > CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND [code] < CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) < CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [code] = CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND [n] < CAST(%(hi1)s AS int)
  AND CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) < CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [code] = CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
  AND [n] >= CAST(%(lo1)s AS int)
  AND [n] < CAST(%(hi1)s AS int)
  AND CAST(%(lo0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) = CAST(%(hi0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))
