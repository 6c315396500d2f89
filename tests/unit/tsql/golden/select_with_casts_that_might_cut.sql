SELECT CASE WHEN DATALENGTH(CAST([loc] AS nvarchar(max))) > 200 THEN CAST(CAST(N'longer than varchar(100): ' + CAST(DATALENGTH(CAST([loc] AS nvarchar(max))) AS nvarchar(20)) AS int) AS nvarchar(100)) ELSE CAST([loc] AS nvarchar(100)) END AS [loc],
       CASE WHEN DATALENGTH(CAST([name] AS nvarchar(max))) > 20 THEN CAST(CAST(N'longer than varchar(10): ' + CAST(DATALENGTH(CAST([name] AS nvarchar(max))) AS nvarchar(20)) AS int) AS nvarchar(10)) ELSE CAST([name] AS nvarchar(10)) END AS [name],
       CASE WHEN DATALENGTH(CAST([raw] AS varbinary(max))) > 8 THEN CAST(CAST(N'longer than binary(8): ' + CAST(DATALENGTH(CAST([raw] AS varbinary(max))) AS nvarchar(20)) AS int) AS binary(8)) ELSE CAST([raw] AS binary(8)) END AS [raw]
FROM [dbo].[orders]
