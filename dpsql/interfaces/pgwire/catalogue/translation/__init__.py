"""PostgreSQL's questions about its catalogue, printed anew for a shadow of it in DuckDB.

`translate` reads one SELECT over catalogue relations and allowed functions, finds the type that
PostgreSQL would give each column, and prints the query from the tree; all else is refused.
"""
