"""Comments on tables and columns: the owner's declarations, which are public."""

from __future__ import annotations

from dpsql.model.tree import Value
from dpsql.model.vocabulary import ColumnPolicy, Link, Policy, TablePolicy

MOST_VALUES = 20
"""Maximum number of listed values; longer lists show only their length."""


SYNTHETIC = "synthetic: its rows are nobody's; how wrong numbers of it are is not known"
"""Comment on a synthetic table."""


def table_comment(policy: Policy, table: TablePolicy) -> str:
    """Return the comment on a table: private or public, its unit, and its contribution bounds."""
    if not table.private:
        return table.about or "public"
    limits = {
        "rows per unit": table.max_rows_per_unit,
        "groups per unit": table.max_groups_per_unit,
        "rows per group": table.max_rows_per_group,
    }
    parts = [f"at most {limit} {what}" for what, limit in limits.items() if limit is not None]
    parts += [f"at most {limit.most} groups per unit by {limit.by}" for limit in table.groups_by]
    parts += [f"at most {limit.most} rows per group by {limit.by}" for limit in table.rows_by]
    return "; ".join([f"private: the unit is {policy.unit_name}", *parts])


def column_comment(policy: Policy, table: TablePolicy, column: ColumnPolicy) -> str | None:
    """Return the comment on a column: its link to the unit, bounds and values, or None."""
    name, unit = column.name.lower(), policy.unit
    parts = []
    if table.name.lower() == unit.table.lower() and name == unit.key.lower():
        parts.append("the privacy unit")
    links = [link for link in (table.link, *table.several) if link]
    links = [link for link in links if name in map(str.lower, link.columns)]
    if any(policy.granted(link.table) is None for link in links):
        links = []
        parts.append("the privacy unit")
    parts += [f"leads to the privacy unit through {_target(link)}" for link in links]
    alike = (most for key, most in table.max_rows_per_key if key.lower() == name)
    parts += [f"at most {most} rows of all units share a value" for most in alike]
    parts += [
        f"leads to the same unit through {_target(link)}"
        for link in table.same_unit
        if name == link.column.lower()
    ]
    if any(name in map(str.lower, link.columns) for link in table.unprotected):
        parts.append("people whom it names are not protected")
    if column.bounds is not None:
        lower, upper = column.bounds
        parts.append(f"bounds {lower} to {upper}")
    elif column.private_bounds is not None:
        parts.append("bounds are found privately")
    if column.max_per_unit is not None:
        parts.append(f"at most {column.max_per_unit} of one unit in all")
    if column.max_length is not None:
        parts.append(f"at most {column.max_length} characters")
    if column.randomized is not None:
        law = column.randomized.law
        how = f"what people reported ({law.mechanism}, ε = {law.epsilon:.4g})"
        parts.append(f"{how}: {_values(column.randomized.values)}")
    elif column.values is not None:
        parts.append(_values(column.values))
    if column.nullable and table.private:
        parts.append("may be NULL")
    return "; ".join(parts) or None


def _target(link: Link) -> str:
    one = f"{link.table}.{link.key}"
    return f"{link.table}.({', '.join(link.keys)})" if link.more else one


def _values(values: tuple[Value, ...]) -> str:
    if len(values) > MOST_VALUES:
        return f"one of {len(values)} public values"
    return "values " + ", ".join(map(str, values))
