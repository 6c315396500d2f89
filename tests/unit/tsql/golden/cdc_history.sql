-- lsn_0 = '0x00000025000005A80003'
-- lsn_1 = '0x00000025000006100001'
-- instance = 'dbo_orders'
-- zone = 'W. Europe Standard Time'
DECLARE @reached binary(10), @smallest binary(10), @low binary(10), @entry_0 datetime, @entry_1 datetime;
SET @reached = sys.fn_cdc_get_max_lsn();
SET @entry_0 = (SELECT m.tran_end_time FROM cdc.lsn_time_mapping AS m
    WHERE m.start_lsn = CONVERT(binary(10), %(lsn_0)s, 1));
SET @entry_1 = (SELECT m.tran_end_time FROM cdc.lsn_time_mapping AS m
    WHERE m.start_lsn = CONVERT(binary(10), %(lsn_1)s, 1));
SET @smallest = (SELECT MIN(m.start_lsn) FROM cdc.lsn_time_mapping AS m);
SET @low = sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128)));
SELECT CONVERT(varchar(22), @reached, 1) AS max_lsn,
       CONVERT(varchar(23), CAST(@entry_0 AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3)), 126) AS entry_0,
       CONVERT(varchar(23), CAST(@entry_1 AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3)), 126) AS entry_1,
       CONVERT(varchar(22), @smallest, 1) AS smallest,
       CONVERT(varchar(22), @low, 1) AS low,
       CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability
