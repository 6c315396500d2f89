-- SQL Server: a member of sysadmin runs this; SQL Server Agent has to run, it captures.
GO
USE [shop];
GO
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
IF NOT EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'CORP\airflow')
    CREATE LOGIN [CORP\airflow] FROM WINDOWS;
GO
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = N'CORP\airflow')
    CREATE USER [CORP\airflow] FOR LOGIN [CORP\airflow];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_orders')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'orders',
        @capture_instance = N'dbo_orders', @role_name = NULL, @supports_net_changes = 0;
GO
GRANT SELECT ON [dbo].[orders] TO [CORP\airflow];
GRANT SELECT ON [cdc].[dbo_orders_CT] TO [CORP\airflow];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'sales_customers')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'sales', @source_name = N'customers',
        @capture_instance = N'sales_customers', @role_name = NULL, @supports_net_changes = 0;
GO
GRANT SELECT ON [sales].[customers] TO [CORP\airflow];
GRANT SELECT ON [cdc].[sales_customers_CT] TO [CORP\airflow];
GO
