"""Engines: run a rewritten query, and nothing else."""
