-- lo0 = '1'
-- lo1 = '-0.0500'
-- hi0 = '2'
-- hi1 = '7.0000'
SELECT [Entry No_] AS [Entry_x0020_No_],
       CAST([100%% ]]x[] AS decimal(19,4)) AS [100%%_x0020_]]x[],
       CONVERT(varchar(16), CAST([a_x0020_b] AS time(7)), 121) AS [a_x005F_x0020_b]
FROM [Acme Inc$].[Ledger ]]Entry%% [x]
WHERE [Entry No_] = CAST(%(lo0)s AS int)
  AND [100%% ]]x[] >= CAST(%(lo1)s AS money)
UNION ALL
SELECT [Entry No_] AS [Entry_x0020_No_],
       CAST([100%% ]]x[] AS decimal(19,4)) AS [100%%_x0020_]]x[],
       CONVERT(varchar(16), CAST([a_x0020_b] AS time(7)), 121) AS [a_x005F_x0020_b]
FROM [Acme Inc$].[Ledger ]]Entry%% [x]
WHERE [Entry No_] > CAST(%(lo0)s AS int)
  AND [Entry No_] < CAST(%(hi0)s AS int)
UNION ALL
SELECT [Entry No_] AS [Entry_x0020_No_],
       CAST([100%% ]]x[] AS decimal(19,4)) AS [100%%_x0020_]]x[],
       CONVERT(varchar(16), CAST([a_x0020_b] AS time(7)), 121) AS [a_x005F_x0020_b]
FROM [Acme Inc$].[Ledger ]]Entry%% [x]
WHERE [Entry No_] = CAST(%(hi0)s AS int)
  AND [100%% ]]x[] < CAST(%(hi1)s AS money)
