"""SQL dialects: the only users of sqlglot."""
