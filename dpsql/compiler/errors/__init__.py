"""The error of every number, carried through the outer query."""
