"""Consistency: measurements of the same rows are made to agree, at no cost in privacy."""
