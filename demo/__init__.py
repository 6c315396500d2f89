"""``make demo``: the main job end to end, on a server that this machine runs itself."""
