-- name = '[cdc].[dbo_100%_CT]'
SELECT HAS_PERMS_BY_NAME(%(name)s, 'OBJECT', 'SELECT') AS may_select
