"""Claims that a statement enforces, by leaving out the units that break them.

Proof (PRIVACY.md R96). Whether a unit is left out depends on its own rows, and those that stay
satisfy the claim.
"""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression


@dataclass(frozen=True, slots=True)
class Enforcement:
    """A claim: a unit has at most `most` rows, or different `values` of expressions together.

    Within a group it is about a unit's rows there, and these alone are left out.
    """

    most: int
    values: tuple[Expression, ...] = ()
    in_group: bool = False

    @property
    def words(self) -> str:
        """What is left out, for `explain`."""
        what = f"values of {len(self.values)} keys" if self.values else "rows"
        where = "a unit's rows in groups" if self.in_group else "units"
        return f"{where} with more than {self.most} {what} are left out"
