-- schema_1 = 'dbo'
-- name_1 = '100% [orders]'
-- name_2 = '[cdc].[dbo_100%_CT]'
-- instance_4 = 'dbo_orders'
EXEC sys.sp_cdc_help_change_data_capture @source_schema = %(schema_1)s, @source_name = %(name_1)s;
SELECT 1 AS [__$ended];
SELECT HAS_PERMS_BY_NAME(%(name_2)s, 'OBJECT', 'SELECT') AS may_select;
SELECT 2 AS [__$ended];
SELECT HAS_PERMS_BY_NAME(NULL, 'DATABASE', 'UNMASK') AS may_unmask;
SELECT 3 AS [__$ended];
EXEC sys.sp_cdc_get_captured_columns @capture_instance = %(instance_4)s;
SELECT 4 AS [__$ended]
