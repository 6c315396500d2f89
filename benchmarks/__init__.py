"""What it costs to load a table: measured at the same time in one run, on any server that speaks T-SQL."""
