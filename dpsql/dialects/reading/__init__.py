"""Text → Statement: the only users of sqlglot for what analysts ask."""
