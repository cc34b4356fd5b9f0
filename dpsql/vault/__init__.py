"""vault: charges, runs and remembers questions; it alone holds ledger, engine and sampler."""
