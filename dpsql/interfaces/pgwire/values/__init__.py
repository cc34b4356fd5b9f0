"""Values and their types in the wire protocol."""
