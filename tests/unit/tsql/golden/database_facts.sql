SELECT d.name AS database_name, SUSER_SNAME() AS login_name, USER_NAME() AS user_name,
       d.is_cdc_enabled, d.snapshot_isolation_state, d.is_read_committed_snapshot_on,
       d.collation_name
FROM sys.databases AS d
WHERE d.name = DB_NAME()
