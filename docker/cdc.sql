-- SQL Server: a member of sysadmin runs this; SQL Server Agent has to run, it captures.
GO
USE [travel];
GO
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
-- Put a password in; it goes into the Airflow connection.
IF NOT EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'loader')
    CREATE LOGIN [loader] WITH PASSWORD = N'<password>';
GO
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'loader')
    CREATE USER [loader] FOR LOGIN [loader];
GO
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'cdc_reader')
    CREATE ROLE [cdc_reader];
ALTER ROLE [cdc_reader] ADD MEMBER [loader];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_airlines')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'airlines',
        @capture_instance = N'dbo_airlines', @role_name = N'cdc_reader', @supports_net_changes = 0;
GO
GRANT SELECT ON [dbo].[airlines] TO [loader];
GRANT SELECT ON [cdc].[dbo_airlines_CT] TO [loader];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_airports')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'airports',
        @capture_instance = N'dbo_airports', @role_name = N'cdc_reader', @supports_net_changes = 0;
GO
GRANT SELECT ON [dbo].[airports] TO [loader];
GRANT SELECT ON [cdc].[dbo_airports_CT] TO [loader];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_flights')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'flights',
        @capture_instance = N'dbo_flights', @role_name = N'cdc_reader', @supports_net_changes = 0;
GO
GRANT SELECT ON [dbo].[flights] TO [loader];
GRANT SELECT ON [cdc].[dbo_flights_CT] TO [loader];
GO
