"""Errors of all numbers, carried through the outer query."""
