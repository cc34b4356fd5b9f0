"""Release: Exact → Noisy → Answer. Run, add noise, make measurements agree, finish."""
