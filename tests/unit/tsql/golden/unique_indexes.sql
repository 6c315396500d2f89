SELECT i.object_id, i.name AS index_name, i.index_id, i.is_primary_key, i.has_filter,
       i.is_disabled, k.key_ordinal, c.name AS column_name
FROM sys.indexes AS i
JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = 581577110 AND i.is_unique = 1
  AND k.is_included_column = 0 AND k.key_ordinal > 0
ORDER BY i.index_id, k.key_ordinal
