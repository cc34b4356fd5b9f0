"""The private plan, and what makes two questions the same question."""
