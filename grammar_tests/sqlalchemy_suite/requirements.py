"""What SQLAlchemy's suite may ask of a dialect that only reads.

Tables are made and filled by the scratch driver, so that every SELECT of the suite can be asked.
What is closed here is closed for the reason above it; what the suite closes by itself and we
answer is opened.
"""

# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

CLOSED = {
    "nothing is written: no DML, no keys made by the database, no rows returned from it": """
        implements_get_lastrowid autocommit
        empty_inserts identity_columns
        sane_rowcount
        duplicate_key_raises_integrity_error""",
    "a policy has no schemas, temporary tables, views, indexes or constraints": """
        schemas temp_table_reflection temp_table_reflect_indexes temporary_tables index_reflection
        unique_constraint_reflection indexes_with_ascdesc reflect_indexes_with_ascdesc
        named_constraints""",
    "of links between tables a policy declares those towards the privacy unit": """
        foreign_key_constraint_reflection self_referential_foreign_keys foreign_keys""",
    "dpsql has no such type": """
        binary_comparisons binary_literals""",
    "LIMIT, OFFSET and the offsets of frames are whole numbers": """
        sql_expression_limit_offset window_range_numeric""",
}  # fmt: skip

OPENED = """
    nullsordering intersect except_ window_functions ctes ctes_with_values supports_distinct_on
    fetch_first fetch_no_order_by datetime_literals datetime_historic date_historic
    datetime_timezone timestamp_microseconds order_by_label_with_expression
    boolean_col_expressions mod_operator_as_percent_sign precision_numerics_enotation_small
    precision_numerics_retains_significant_digits isolation_level skip_autocommit_rollback
    savepoints tuple_in unicode_ddl table_value_constructor aggregate_order_by infinity_floats
    regexp_match regexp_replace fetch_offset_with_options percent_schema_names
    float_or_double_precision_behaves_generically uuid_data_type"""


def _fixed(found: Any) -> property:
    return property(lambda _self: found)


_NAMES = {name: reason for reason, names in CLOSED.items() for name in names.split()}

Requirements = type(
    "Requirements",
    (SuiteRequirements,),
    {
        **{
            name: _fixed(exclusions.skip_if(lambda: True, reason))
            for name, reason in _NAMES.items()
        },
        **{name: _fixed(exclusions.open()) for name in OPENED.split()},
    },
)
"""The class that setup.cfg names."""
