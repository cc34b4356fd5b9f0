"""Measurements of the same rows made to agree, at no cost in privacy."""
