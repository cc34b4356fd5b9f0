"""The statements that a PostgreSQL session knows besides queries."""
