"""Writes Delta Lake: bronze, facts, staged files and the transactions that decide."""
