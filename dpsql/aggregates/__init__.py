"""Aggregate recipes: noisy parts and how they combine."""
