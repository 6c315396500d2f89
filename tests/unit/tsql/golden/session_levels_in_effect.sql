SELECT s.transaction_isolation_level AS isolation_level, s.date_format AS date_order,
       s.language AS language_name
FROM sys.dm_exec_sessions AS s
WHERE s.session_id = @@SPID
