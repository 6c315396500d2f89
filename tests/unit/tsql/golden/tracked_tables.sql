SELECT t.object_id, s.name AS schema_name, t.name AS table_name, t.is_tracked_by_cdc,
       t.is_memory_optimized, t.temporal_type
FROM sys.tables AS t
JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.is_tracked_by_cdc = 1
ORDER BY s.name, t.name
