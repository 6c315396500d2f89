"""Silver: the current state of one source table, maintained from its bronze table."""
