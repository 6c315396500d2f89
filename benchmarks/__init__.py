"""What it costs to load a table: measured side by side in one run, on any server that speaks T-SQL."""
