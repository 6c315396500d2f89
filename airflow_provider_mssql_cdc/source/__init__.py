"""Reads SQL Server: sessions, readers and the mapping of driver errors and types."""
