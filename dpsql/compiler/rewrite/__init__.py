"""rewrite: PrivatePlan → Rewritten. It prints the statements of a plan, in the SQL of a dialect."""
