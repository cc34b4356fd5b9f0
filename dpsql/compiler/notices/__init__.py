"""Notices about the limits that a plan enforces, and about useless answers."""
