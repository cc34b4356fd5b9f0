"""risk: disclosure risk of a masked table, for its owner: unique people, and coarser columns."""
