SELECT (SELECT COUNT_BIG(*) FROM [dbo].[orders]) AS row_count,
       (SELECT COUNT_BIG(*) FROM (SELECT DISTINCT [code], [n] FROM [dbo].[orders]) AS d) AS key_count
