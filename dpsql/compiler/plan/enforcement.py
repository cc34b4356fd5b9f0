"""Claims that a statement enforces by excluding the units that violate them.

Proof (PRIVACY.md R96). The exclusion of a unit depends on its own rows, and the remaining ones
satisfy the claim.
"""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression


@dataclass(frozen=True, slots=True)
class Enforcement:
    """A claim: a unit has at most `most` rows, or distinct `values` of expressions together.

    With `in_group` it is about a unit's rows in a group, and only these are excluded.
    """

    most: int
    values: tuple[Expression, ...] = ()
    in_group: bool = False

    @property
    def words(self) -> str:
        """Description of the excluded rows, for `explain`."""
        what = f"values of {len(self.values)} keys" if self.values else "rows"
        where = "a unit's rows in groups" if self.in_group else "units"
        return f"{where} with more than {self.most} {what} are left out"
