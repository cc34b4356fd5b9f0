"""Streams of counting queries against one threshold."""
