"""Translation of PostgreSQL's catalogue queries for the shadow in DuckDB.

`translate` reads one SELECT over catalogue relations and allowed functions. It finds the type that
PostgreSQL would give each column, and prints the query from the tree. Other statements are refused.
"""
