"""PostgreSQL's words, names of columns, expressions and private blocks."""
