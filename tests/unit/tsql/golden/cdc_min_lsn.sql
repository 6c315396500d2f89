-- instance = 'dbo_orders'
SELECT CONVERT(varchar(22),
               sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128))), 1) AS min_lsn
