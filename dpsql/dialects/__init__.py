"""SQL text, in and out: `reading` an analyst's, and printing what engines run."""
