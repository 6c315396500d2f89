-- k0_0 = 'a'
-- k0_1 = '3'
-- k1_0 = "b'c"
-- k1_1 = '8'
SELECT CAST([code] AS nvarchar(20)) AS [code],
       [n] AS [n]
FROM [dbo].[orders]
WHERE ([code] = CAST(%(k0_0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) AND [n] = CAST(%(k0_1)s AS int)
    OR [code] = CAST(%(k1_0)s COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20)) AND [n] = CAST(%(k1_1)s AS int))
