-- lo0 = '1'
-- hi0 = '900'
SELECT CONVERT(varchar(20), (SELECT MIN([id]) FROM [dbo].[orders] WHERE [id] >= CAST(%(lo0)s AS bigint) AND [id] <= CAST(%(hi0)s AS bigint))) AS lowest,
       CONVERT(varchar(20), (SELECT MAX([id]) FROM [dbo].[orders] WHERE [id] >= CAST(%(lo0)s AS bigint) AND [id] <= CAST(%(hi0)s AS bigint))) AS highest
