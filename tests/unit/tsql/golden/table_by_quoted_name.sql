-- table = "[dbo].[it's [orders]]]"
SELECT t.object_id, s.name AS schema_name, t.name AS table_name, t.is_tracked_by_cdc,
       t.is_memory_optimized, t.temporal_type
FROM sys.tables AS t
JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.object_id = OBJECT_ID(%(table)s, N'U')
