"""cubes: tables that the owner measures once for all analysts of a budget."""
