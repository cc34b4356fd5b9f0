"""DuckDB in processes that can be killed: the owner's data, and what is released."""
