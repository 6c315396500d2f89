"""Silver: the current state of one source table, kept from its bronze table."""
