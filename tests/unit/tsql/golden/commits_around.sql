-- local = '2024-03-31T01:15:30'
SELECT CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn('largest less than', CAST(%(local)s AS datetime)), 1) AS before_lsn,
       CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn('smallest greater than or equal', CAST(%(local)s AS datetime)), 1) AS passed_lsn
