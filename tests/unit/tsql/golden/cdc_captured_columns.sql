-- instance = 'dbo_orders'
EXEC sys.sp_cdc_get_captured_columns @capture_instance = %(instance)s
