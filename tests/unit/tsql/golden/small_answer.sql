-- name = 'shop'
SELECT d.state_desc, HAS_DBACCESS(d.name) AS has_access
FROM sys.databases AS d
WHERE d.name = CAST(%(name)s AS nvarchar(128));
SELECT 1 AS [__$ended]
