"""DuckDB in processes that can be killed: the owner's data, and released data."""
