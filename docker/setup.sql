-- The tables of dags_examples with made-up rows, older than their change data capture, and a login that
-- may read them and no more. Run again it changes nothing.
SET NOCOUNT ON;
GO
IF DB_ID(N'travel') IS NULL CREATE DATABASE travel;
GO
USE travel;
GO
IF OBJECT_ID(N'dbo.airlines') IS NULL
BEGIN
    CREATE TABLE dbo.airlines (
        airline_id int NOT NULL CONSTRAINT pk_airlines PRIMARY KEY,
        carrier char(2) NOT NULL,
        name nvarchar(80) NOT NULL
    );
    INSERT INTO dbo.airlines VALUES (1, 'AA', N'American'), (2, 'DL', N'Delta'), (3, 'UA', N'United');
END;
IF OBJECT_ID(N'dbo.airports') IS NULL
BEGIN
    CREATE TABLE dbo.airports (
        airport_id int NOT NULL CONSTRAINT pk_airports PRIMARY KEY,
        faa char(3) NOT NULL,
        name nvarchar(80) NOT NULL
    );
    INSERT INTO dbo.airports VALUES (1, 'EWR', N'Newark'), (2, 'JFK', N'Kennedy'), (3, 'LGA', N'La Guardia');
END;
IF OBJECT_ID(N'dbo.flights') IS NULL
BEGIN
    CREATE TABLE dbo.flights (
        flight_id int NOT NULL CONSTRAINT pk_flights PRIMARY KEY,
        carrier char(2) NOT NULL,
        origin char(3) NOT NULL,
        scheduled_at datetime2(6) NOT NULL,
        delay_minutes smallint NULL,
        fare decimal(18, 4) NOT NULL
    );
    INSERT INTO dbo.flights (flight_id, carrier, origin, scheduled_at, delay_minutes, fare)
    SELECT
        n,
        CHOOSE(1 + n % 3, 'AA', 'DL', 'UA'),
        CHOOSE(1 + n % 7 % 3, 'EWR', 'JFK', 'LGA'),
        DATEADD(minute, n, CAST('2013-01-01T00:00:00' AS datetime2(6))),
        NULLIF(n % 41, 0),
        50 + n % 9973 / 7.0
    FROM (
        SELECT TOP (200000) ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) AS n
        FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b
    ) AS numbers;
END;
GO
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'travel' AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
IF SUSER_ID(N'loader') IS NULL
    CREATE LOGIN loader WITH PASSWORD = N'$(LOADER_PASSWORD)', DEFAULT_DATABASE = travel;
GO
IF DATABASE_PRINCIPAL_ID(N'loader') IS NULL CREATE USER loader FOR LOGIN loader;
IF DATABASE_PRINCIPAL_ID(N'cdc_reader') IS NULL CREATE ROLE cdc_reader;
GO
DECLARE @table sysname, @sql nvarchar(max);
DECLARE tables CURSOR LOCAL FOR
    SELECT name FROM sys.tables
    WHERE schema_id = SCHEMA_ID(N'dbo') AND name IN (N'airlines', N'airports', N'flights') AND is_tracked_by_cdc = 0;
OPEN tables;
FETCH NEXT FROM tables INTO @table;
WHILE @@FETCH_STATUS = 0
BEGIN
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo', @source_name = @table, @role_name = N'cdc_reader', @supports_net_changes = 0;
    SET @sql = N'GRANT SELECT ON dbo.' + QUOTENAME(@table) + N' TO loader;'
        + N'GRANT SELECT ON cdc.' + QUOTENAME(N'dbo_' + @table + N'_CT') + N' TO loader;';
    EXEC (@sql);
    FETCH NEXT FROM tables INTO @table;
END;
GO
ALTER ROLE cdc_reader ADD MEMBER loader;
GO
