-- lo1 = '0x00000000000007D1'
-- hi0 = 'Süd'
-- hi1 = '0x00000000000007D2'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [region] IS NULL
  AND [stamp] >= CONVERT(binary(8), %(lo1)s, 1)
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [region] IS NOT NULL
  AND [region] < CAST(%(hi0)s AS nvarchar(40)) COLLATE SQL_Latin1_General_CP1_CI_AS
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [region] = CAST(%(hi0)s AS nvarchar(40)) COLLATE SQL_Latin1_General_CP1_CI_AS
  AND [stamp] < CONVERT(binary(8), %(hi1)s, 1)
