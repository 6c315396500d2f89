"""Statements as text and parameters: pure functions; the ``source`` layer runs them."""
