"""Accountants: event to loss, and the filter."""
