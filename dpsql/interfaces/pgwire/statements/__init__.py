"""Statements of a PostgreSQL session other than queries."""
