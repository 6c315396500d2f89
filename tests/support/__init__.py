"""What several tests share. It imports nothing of the package's own decisions."""
