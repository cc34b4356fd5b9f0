"""Spark and Sail as the owner's database: files that a server reads, through Spark Connect."""
