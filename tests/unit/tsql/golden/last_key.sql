SELECT TOP (1) CONVERT(varchar(20), [company]) AS k0, CONVERT(varchar(27), [entry], 121) AS k1, CONVERT(varchar(20), [line]) AS k2
FROM [dbo].[orders]
ORDER BY [company] DESC, [entry] DESC, [line] DESC
