SELECT [a ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba b] AS [__$c906089dc684cb605afca0b043f823d22]
FROM [dbo].[orders]
