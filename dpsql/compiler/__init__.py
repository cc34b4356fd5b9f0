"""The pure pipeline, one verb a file."""
