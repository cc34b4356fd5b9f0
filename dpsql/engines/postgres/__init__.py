"""PostgreSQL as the owner's database: one snapshot, read through a role that can only read."""
