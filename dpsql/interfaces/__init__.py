"""Interfaces: speak a protocol; know no SQL and no privacy."""
