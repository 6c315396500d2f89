"""Decisions: pure functions from values to values. Standard library only, nothing here does I/O."""
