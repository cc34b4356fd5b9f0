"""The pure pipeline, one step a room."""
