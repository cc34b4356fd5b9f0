"""Text → Statement: the only package that uses sqlglot for analysts' queries."""
