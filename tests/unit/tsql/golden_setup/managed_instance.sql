-- Azure SQL Managed Instance: a member of sysadmin runs this.
GO
USE [shop];
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
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_orders')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'orders',
        @capture_instance = N'dbo_orders', @role_name = NULL, @supports_net_changes = 0;
GO
GRANT SELECT ON [dbo].[orders] TO [loader];
GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader];
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'sales_customers')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'sales', @source_name = N'customers',
        @capture_instance = N'sales_customers', @role_name = NULL, @supports_net_changes = 0;
GO
GRANT SELECT ON [sales].[customers] TO [loader];
GRANT SELECT ON [cdc].[sales_customers_CT] TO [loader];
GO
