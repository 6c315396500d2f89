SELECT [id] AS [id]
FROM [dbo].[orders]
