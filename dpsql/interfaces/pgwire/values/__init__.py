"""Values and their types, as they cross the wire."""
