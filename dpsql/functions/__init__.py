"""Scalar functions: types, intervals, domains and total forms."""

from dpsql.functions.conversions import cast_to
from dpsql.functions.narrowing import either, intersect, narrow, shaved
from dpsql.functions.registry import (
    REGISTRY,
    converted_facts,
    declared_facts,
    facts,
    facts_of_values,
    function_of,
    is_pointwise,
    is_strict,
    listed,
    literal_facts,
    lookup,
    unaccepted,
)
from dpsql.functions.row import LONGEST_TEXT, Function
from dpsql.functions.strings import LONGEST_COMPARED
from dpsql.functions.type_rules import common_type, conversion_raises

__all__ = [
    "LONGEST_COMPARED",
    "LONGEST_TEXT",
    "REGISTRY",
    "Function",
    "cast_to",
    "common_type",
    "conversion_raises",
    "converted_facts",
    "declared_facts",
    "either",
    "facts",
    "facts_of_values",
    "function_of",
    "intersect",
    "is_pointwise",
    "is_strict",
    "listed",
    "literal_facts",
    "lookup",
    "narrow",
    "shaved",
    "unaccepted",
]
