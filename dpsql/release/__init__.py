"""Exact → Noisy → Answer: run, add noise, make what was measured agree, finish."""
