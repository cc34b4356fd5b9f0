"""dpsql: a privacy proxy for SQL."""
