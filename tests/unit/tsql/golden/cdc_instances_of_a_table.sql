-- schema = 'dbo'
-- name = "it's [orders]"
EXEC sys.sp_cdc_help_change_data_capture @source_schema = %(schema)s, @source_name = %(name)s
