"""Synthetic rows: noisy marginals that are paid for once, and rows that are drawn from them."""
