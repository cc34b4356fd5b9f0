"""Sections `[roles.NAME]` of a policy: the tables, columns and rows that some analysts may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dpsql.model.errors import PolicyError
from dpsql.policy.draft import Draft, DraftGrant, DraftRole
from dpsql.policy.guarantee_keys import guarantee_of
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.value_reader import Reader

ALL = "all"


def read_roles(reader: Reader, analysts: Sequence[str]) -> tuple[DraftRole, ...]:
    """Return the roles of a policy file. Where there is one, each analyst needs one.

    Raises `PolicyError` for a role without tables or analysts, and for an analyst without a role.
    """
    section = reader.table("roles")
    roles = tuple(_role(each, name, reader, analysts) for name, each in section.tables())
    left = [a for a in analysts if roles and not any(a in role.analysts for role in roles)]
    if left:
        why = f"The analyst {left[0]} has no role, and so no table."
        fix = f'Name {left[0]} in a role; tables = "{ALL}" grants everything.'
        section.fail(None, why, fix)
    return roles


def _role(reader: Reader, name: str, whole: Reader, analysts: Sequence[str]) -> DraftRole:
    only_keys(reader, "roles.R")
    members = {*_names(reader, "analysts", analysts, "analyst")}
    groups = whole.table("groups")
    for group in _names(reader, "groups", tuple(groups.values), "group"):
        members |= {*map(str, groups.table(group).values.get("analysts", ()))}
    if not members and reader.values.get("analysts") != []:  # a role of agents alone
        reader.fail(None, f"The role {name} has no analyst.", 'Write analysts = ["…"].')
    return DraftRole(name, frozenset(members), _grants(reader, name))


def _names(reader: Reader, key: str, names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return a list of names; () if it is absent."""
    listed = reader.values.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        reader.fail(key, f"{key} is no list of names.", f'Write {key} = ["…"].')
    for name in listed:
        if name not in names:
            fix = f"Known are {', '.join(names)}." if names else f"Add [{key}.{name}]."
            reader.fail(key, f"There is no {what} {name}.", fix)
    return tuple(listed)


def _grants(reader: Reader, name: str) -> tuple[DraftGrant, ...] | None:
    given = reader.values.get("tables")
    if given == ALL:
        return None
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        reader.distinct(tuple(given), "tables")
        return tuple(map(DraftGrant, given))
    if not isinstance(given, dict) or not given:
        fix = f"Add [roles.{name}.tables.TABLE], or list tables."
        reader.fail("tables" if given else None, f"The role {name} has no table.", fix)
    return tuple(_grant(each, table) for table, each in reader.table("tables").tables())


def _grant(reader: Reader, table: str) -> DraftGrant:
    only_keys(reader, "roles.R.tables.T")
    rows = reader.text("rows") if "rows" in reader.values else None
    if "columns" not in reader.values:
        return DraftGrant(table, None, rows)
    columns = reader.values["columns"]
    if not isinstance(columns, list) or not columns or not all(isinstance(c, str) for c in columns):
        reader.fail("columns", "columns is no list of columns.", 'Write columns = ["a", "b"].')
    reader.distinct(tuple(columns), "columns")
    return DraftGrant(table, tuple(columns), rows)


class WrittenRoles:
    """Roles of a policy file, to be compared with those that it had when it was loaded."""

    def __init__(self, draft: Draft, load: Callable[[str], Draft]) -> None:
        self._draft, self._load = draft, load
        self._read: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        return " | ".join(map(str, self._draft.roles))

    def have_changed(self) -> bool:
        """Test, once for each state of the file, whether it has other roles or guarantees now, or a
        mistake.
        """
        try:
            about = Path(self._draft.path).stat()
            read = about.st_ino, about.st_size, about.st_mtime_ns
            if read == self._read:
                return False
            self._read = read
            draft, edited = self._draft, self._load(self._draft.path)
            return edited.roles != draft.roles or guarantee_of(edited) != guarantee_of(draft)
        except OSError:
            return False
        except PolicyError:
            return True
