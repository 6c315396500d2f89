SELECT COUNT(*) AS policy_count, HAS_PERMS_BY_NAME(NULL, 'DATABASE', 'VIEW DEFINITION') AS may_see
FROM sys.security_predicates AS f
JOIN sys.security_policies AS p ON p.object_id = f.object_id
WHERE f.target_object_id = 581577110 AND p.is_enabled = 1
