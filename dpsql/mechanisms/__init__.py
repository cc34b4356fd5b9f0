"""Mechanisms: exact samplers of integer noise, their error, and partition selection."""

from dpsql.mechanisms.draw import sample
from dpsql.mechanisms.error import margin, standard_deviation, widest

__all__ = ["margin", "sample", "standard_deviation", "widest"]
