"""infer: Tracked → Bounded. The facts of every private expression."""
