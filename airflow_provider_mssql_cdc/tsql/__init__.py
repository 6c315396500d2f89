"""Statements, as text and parameters: pure functions that the ``source`` layer runs."""
