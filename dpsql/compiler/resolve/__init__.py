"""resolve: Statement → Resolved. It resolves names, types and tables."""
