"""Scalar functions: types, intervals, domains and total forms."""
