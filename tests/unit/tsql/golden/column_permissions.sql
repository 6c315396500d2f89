-- table = '[Acme Inc$].[Ledger ]]Entry% [x]'
SELECT c.name AS column_name,
       HAS_PERMS_BY_NAME(%(table)s, 'OBJECT', 'SELECT', c.name, 'COLUMN') AS may_select
FROM sys.columns AS c
WHERE c.object_id = 42
ORDER BY c.column_id
