"""infer: Tracked → Bounded. What is known of the values of every private expression."""
