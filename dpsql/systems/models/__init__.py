"""Models: second moments that are paid for once, and what is computed of them."""
