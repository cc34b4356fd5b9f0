"""Local model: each person's client randomises the answers before anybody else sees them."""
