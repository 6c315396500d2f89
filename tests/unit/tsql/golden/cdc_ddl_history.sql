-- instance = 'dbo_orders'
EXEC sys.sp_cdc_get_ddl_history @capture_instance = %(instance)s
