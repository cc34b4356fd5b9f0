"""Measurement of several plans at one charge."""

from __future__ import annotations

import os

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Ending, Engine, Stop
from dpsql.model.dataclass import dataclass, field
from dpsql.model.vocabulary import Exact, Noisy
from dpsql.release.finish import evaluated
from dpsql.release.histogram_choices import Chooser
from dpsql.release.release import Sampler, release


@dataclass(frozen=True, slots=True)
class JointRun:
    """Means to measure plans of one block each, after their charge.

    `ending` records whether a plan failed while the others are an answer.
    """

    engine: Engine
    sampler: Sampler
    chooser: Chooser
    stop: Stop
    ending: Ending = field(default_factory=Ending)

    def integers(self, prepared: Prepared) -> Exact:
        """Return the exact integers of a plan's only block."""
        (sql,) = prepared.rewritten.blocks
        tables = tuple(evaluated(prepared.rewritten, number) for number in sql.stages)
        return self.engine.aggregate(
            sql.sql,
            len(sql.keys),
            sql.parts,
            int.from_bytes(os.urandom(16)),
            tables,
            self.stop,
            prepared.data,
        )

    def noisy(self, prepared: Prepared, exact: Exact) -> Noisy:
        """Return these integers with the noise of the block's releases."""
        return release(exact, prepared.blocks[0], self.sampler, self.chooser)
