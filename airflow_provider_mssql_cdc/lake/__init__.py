"""Write Delta Lake: bronze, facts, staged files, and the transactions that hold the state."""
