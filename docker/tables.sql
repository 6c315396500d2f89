-- The tables of dags_examples with made-up rows, older than their change data capture.
-- Run again it changes nothing.
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
GO
IF OBJECT_ID(N'dbo.airports') IS NULL
BEGIN
    CREATE TABLE dbo.airports (
        airport_id int NOT NULL CONSTRAINT pk_airports PRIMARY KEY,
        faa char(3) NOT NULL,
        name nvarchar(80) NOT NULL
    );
    INSERT INTO dbo.airports VALUES (1, 'EWR', N'Newark'), (2, 'JFK', N'Kennedy'), (3, 'LGA', N'La Guardia');
END;
GO
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
    VALUES (1, 'AA', 'EWR', '2013-01-01T00:01:00', 1, 50.1429);
END;
GO
-- One row becomes 131,072 of them: each statement doubles what is there.
DECLARE @rows int = (SELECT COUNT(*) FROM dbo.flights);
WHILE @rows < 131072
BEGIN
    INSERT INTO dbo.flights (flight_id, carrier, origin, scheduled_at, delay_minutes, fare)
    SELECT
        f.flight_id + @rows,
        CASE (f.flight_id + @rows) % 3 WHEN 0 THEN 'AA' WHEN 1 THEN 'DL' ELSE 'UA' END,
        CASE (f.flight_id + @rows) % 7 % 3 WHEN 0 THEN 'EWR' WHEN 1 THEN 'JFK' ELSE 'LGA' END,
        DATEADD(minute, @rows, f.scheduled_at),
        NULLIF((f.flight_id + @rows) % 41, 0),
        CAST(50 + (f.flight_id + @rows) % 9973 / 7.0 AS decimal(18, 4))
    FROM dbo.flights AS f;
    SET @rows = @rows * 2;
END;
GO
