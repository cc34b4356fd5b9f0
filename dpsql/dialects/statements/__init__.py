"""Statements other than queries: one table of patterns, for every interface."""
