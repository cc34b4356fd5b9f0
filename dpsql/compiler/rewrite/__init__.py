"""rewrite: PrivatePlan → Rewritten. The statements of a plan, in the SQL of a dialect."""
