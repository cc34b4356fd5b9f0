"""The private plan, and the canonical form that identifies equal queries."""
