-- A database with one table older than its change data capture, and a login that may read, no more.
-- Run again it changes nothing.
SET NOCOUNT ON;
GO
IF DB_ID(N'shop') IS NULL CREATE DATABASE shop;
GO
USE shop;
GO
IF OBJECT_ID(N'dbo.orders') IS NULL
BEGIN
    CREATE TABLE dbo.orders (
        order_id int NOT NULL CONSTRAINT pk_orders PRIMARY KEY,
        customer nvarchar(40) NOT NULL,
        amount decimal(18, 4) NOT NULL,
        ordered_at datetime2(6) NOT NULL
    );
    INSERT INTO dbo.orders (order_id, customer, amount, ordered_at)
    SELECT TOP (200000)
        ROW_NUMBER() OVER (ORDER BY (SELECT NULL)),
        CONCAT(N'customer ', (CHECKSUM(NEWID()) & 2147483647) % 5000),
        ((CHECKSUM(NEWID()) & 2147483647) % 1000000) / 100.0,
        DATEADD(second, -((CHECKSUM(NEWID()) & 2147483647) % 31536000), SYSUTCDATETIME())
    FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b;
END;
GO
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'shop' AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
IF SUSER_ID(N'loader') IS NULL
    CREATE LOGIN loader WITH PASSWORD = N'$(LOADER_PASSWORD)', DEFAULT_DATABASE = shop;
GO
IF DATABASE_PRINCIPAL_ID(N'loader') IS NULL CREATE USER loader FOR LOGIN loader;
IF DATABASE_PRINCIPAL_ID(N'cdc_reader') IS NULL CREATE ROLE cdc_reader;
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_orders')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = N'orders', @role_name = N'cdc_reader',
        @capture_instance = N'dbo_orders', @supports_net_changes = 0;
GO
ALTER ROLE cdc_reader ADD MEMBER loader;
GRANT SELECT ON dbo.orders TO loader;
GRANT SELECT ON cdc.dbo_orders_CT TO loader;
GO
