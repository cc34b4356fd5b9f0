"""releases: tables that are published once, with their intervals and the evidence for them."""
