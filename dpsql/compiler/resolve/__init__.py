"""resolve: Statement → Resolved. Names, types and tables."""
