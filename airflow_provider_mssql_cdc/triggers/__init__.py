"""Triggers: what deferred tasks wait for, outside of a worker."""
