"""Synthetic rows: noisy marginals that are charged once, and rows sampled from them."""
