"""risk: what a table shows of people, for its owner: who stands out, and coarser columns."""
