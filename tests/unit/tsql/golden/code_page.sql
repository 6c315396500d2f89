-- collation = 'Latin1_General_CS_AS'
SELECT CAST(COLLATIONPROPERTY(%(collation)s, 'CodePage') AS nvarchar(20)) AS code_page
