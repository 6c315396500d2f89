SELECT c.object_id, c.name AS column_name, c.column_id, COALESCE(b.name, t.name) AS type_name,
       t.name AS declared_type, c.max_length, c.[precision], c.scale, c.collation_name,
       c.is_nullable, c.is_computed, c.is_masked, c.is_sparse, c.is_column_set, c.encryption_type
FROM sys.columns AS c
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b
       ON b.user_type_id = c.system_type_id AND b.system_type_id = c.system_type_id
WHERE c.object_id = 581577110
ORDER BY c.column_id
