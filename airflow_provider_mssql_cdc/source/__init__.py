"""Read SQL Server: sessions, drivers, and the mapping of driver errors and types."""
