SELECT CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_time,
       CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS max_lsn,
       CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability
