SELECT CAST([c varchar(20)] AS nvarchar(20)) AS [c_x0020_varchar_x0028_20_x0029_],
       [c nchar(5)] AS [c_x0020_nchar_x0028_5_x0029_],
       [c nvarchar(20)] AS [c_x0020_nvarchar_x0028_20_x0029_],
       [c nvarchar(max)] AS [c_x0020_nvarchar_x0028_max_x0029_],
       CAST([c ntext] AS nvarchar(max)) AS [c_x0020_ntext],
       CASE WHEN DATALENGTH(CAST([c geography] AS nvarchar(max))) > 40 THEN CAST(CAST(N'longer than varchar(20): ' + CAST(DATALENGTH(CAST([c geography] AS nvarchar(max))) AS nvarchar(20)) AS int) AS nvarchar(20)) ELSE CAST([c geography] AS nvarchar(20)) END AS [c_x0020_geography]
FROM [dbo].[orders]
