-- role = 'cdc_reader'
SELECT IS_ROLEMEMBER(CAST(%(role)s AS nvarchar(128))) AS is_member,
       IS_ROLEMEMBER('db_owner') AS is_owner
