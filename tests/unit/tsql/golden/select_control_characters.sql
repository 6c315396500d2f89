-- lo0_0 = 'a'
-- lo0_1 = 'b\\'
-- lo0_2 = 'c'
-- lo1 = '0x00000000000007D1'
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [region] = CAST((CAST(%(lo0_0)s AS nvarchar(4000)) + NCHAR(0) + CAST(%(lo0_1)s AS nvarchar(4000)) + NCHAR(10) + CAST(%(lo0_2)s AS nvarchar(4000))) AS nvarchar(40)) COLLATE SQL_Latin1_General_CP1_CI_AS
  AND [stamp] >= CONVERT(binary(8), %(lo1)s, 1)
UNION ALL
SELECT [id] AS [id]
FROM [dbo].[orders]
WHERE [region] > CAST((CAST(%(lo0_0)s AS nvarchar(4000)) + NCHAR(0) + CAST(%(lo0_1)s AS nvarchar(4000)) + NCHAR(10) + CAST(%(lo0_2)s AS nvarchar(4000))) AS nvarchar(40)) COLLATE SQL_Latin1_General_CP1_CI_AS
