SELECT COUNT(*) AS scheme_count
FROM sys.indexes AS i
JOIN sys.partition_schemes AS s ON s.data_space_id = i.data_space_id
WHERE i.object_id = 581577110 AND i.index_id IN (0, 1)
