SELECT CAST(CAST(CAST([loc] AS nvarchar(max)) AS nvarchar(max)) AS varbinary(max)) AS [loc],
       CAST(CONVERT(varchar(27), [at], 121) AS varchar(27)) AS [at],
       CAST([price] AS decimal(10,2)) AS [price],
       CAST([guid] AS binary(16)) AS [guid],
       CAST([when] AS datetime2(3)) AS [when]
FROM [dbo].[orders]
