SELECT CONVERT(varchar(41), (SELECT MIN([no]) FROM [dbo].[orders])) AS lowest,
       CONVERT(varchar(41), (SELECT MAX([no]) FROM [dbo].[orders])) AS highest
