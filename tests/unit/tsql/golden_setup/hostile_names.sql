-- SQL Server: a member of sysadmin runs this; SQL Server Agent has to run, it captures.
GO
USE [it's ]]a% shop];
GO
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
-- Put a password in; it goes into the Airflow connection.
IF NOT EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'lo''ad]er')
    CREATE LOGIN [lo'ad]]er] WITH PASSWORD = N'<password>';
GO
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'lo''ad]er')
    CREATE USER [lo'ad]]er] FOR LOGIN [lo'ad]]er];
GO
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'cdc ''r]ole')
    CREATE ROLE [cdc 'r]]ole];
ALTER ROLE [cdc 'r]]ole] ADD MEMBER [lo'ad]]er];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'my schema_it''s [ord%ers]')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'my schema', @source_name = N'it''s [ord%ers]',
        @capture_instance = N'my schema_it''s [ord%ers]', @role_name = N'cdc ''r]ole', @supports_net_changes = 0;
GO
GRANT SELECT ON [my schema].[it's [ord%ers]]] TO [lo'ad]]er];
GRANT SELECT ON [cdc].[my schema_it's [ord%ers]]_CT] TO [lo'ad]]er];
GO
