"""Models: second moments that are charged once, and the models computed from them."""
