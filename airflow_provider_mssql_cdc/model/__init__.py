"""Values: what this package talks about. Standard library only, nothing here does I/O."""
