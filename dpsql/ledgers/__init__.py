"""Ledgers: the durable record of what was spent."""
