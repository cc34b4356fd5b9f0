"""infer: Tracked → Bounded. The interval and the finite domain of every private expression.

Facts start at declared columns, follow expressions by the rules of `dpsql.functions`, and are
narrowed by every predicate that all surviving rows satisfy. Nothing here is trusted for privacy:
clipping and key lists enforce inferred facts, so a wrong declaration costs accuracy only.

Proof (PRIVACY.md R24, R26, R29, R115). An interval that is used is clipped to and a list that is
used is enforced; so nothing that is inferred wrongly costs more than accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

from dpsql.compiler.infer.certain_numbers import certain_numbers
from dpsql.compiler.infer.column_facts import Columns, Evaluate, FactSource, PublicData, Row
from dpsql.compiler.infer.keys_together import together
from dpsql.compiler.infer.possible_keys import listed, possible
from dpsql.compiler.plan.measurement_kinds import MOST_ROWS
from dpsql.compiler.plan.private_plan import Bounded, BoundedBlock, PrivateBlock, Tracked
from dpsql.compiler.plan.published_keys import Within
from dpsql.compiler.plan.voting_rows import voting_rows
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.algebra import Relation, Staged
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import AggregateCall, Call, Expression, Kind, Ref, Star, Value
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import refs, relations, walk

AVERAGES = frozenset("avg variance var_pop stddev stddev_pop".split())
"""Aggregates that divide by the number of rows with a value of their argument."""

QUOTIENTS = Interval(Fraction(-(2**30)), Fraction(2**30))
"""Bounds of a quotient that has none, where smaller ones are searched."""

LONGEST = 1 << 16
"""Length of bounds up to which the days that a policy assumes bound a number closely enough."""

_PLAIN = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.VARCHAR, Kind.DATE})
"""Types with the same equality of values in Python and in the engine."""


def infer(tracked: Tracked, policy: Policy, public: PublicData, evaluate: Evaluate) -> Bounded:
    """Infer the facts of every key and argument of every block."""
    blocks = tuple(_block(block, policy, public, evaluate).bounded() for block in tracked.blocks)
    if tracked.stages:
        keys = [len(block.keys) for block in tracked.blocks]
        blocks = tuple(
            replace(b, voting=voting_rows(b.block.rows, b.block.max_rows, tracked.stages, keys))
            for b in blocks
        )
    origin = FactSource(policy, public, evaluate, policy.limits.max_public_groups)
    certain = certain_numbers(tracked.outer, blocks, origin)
    return Bounded(tracked.outer, blocks, tracked.stages, certain)


def domain_of(
    block: PrivateBlock, policy: Policy, public: PublicData, evaluate: Evaluate
) -> tuple[Row, ...] | None:
    """Return the public keys of a block, which are all answered; None where keys are private."""
    return _block(block, policy, public, evaluate).bounded().domain


def _block(block: PrivateBlock, policy: Policy, public: PublicData, evaluate: Evaluate) -> _Block:
    limit = block.declared.public_groups or policy.limits.max_public_groups
    return _Block(block, FactSource(policy, public, evaluate, limit))


def with_others(bounded: Bounded, others: Sequence[bool], policy: Policy) -> Bounded | None:
    """Return the only block with NULL among the values of the keys marked in `others`.

    Returns None where keys are private, or become too many.
    """
    if len(bounded.blocks) != 1 or bounded.blocks[0].domain is None:
        return None
    (block,) = bounded.blocks
    domain = block.domain or ()
    axes = [
        dict.fromkeys((*values, None) if other else values)
        for values, other in zip(zip(*domain, strict=True), others, strict=True)
    ]
    most = block.block.declared.public_groups or policy.limits.max_public_groups
    if prod(map(len, axes)) > most:
        return None
    keys, determined = block.block.keys, block.block.determined
    free = [
        len(axis)
        for key, axis in zip(keys, axes, strict=True)
        if not refs(key.expression) <= determined
    ]
    every = replace(block, domain=tuple(product(*axes)), key_combinations=prod(free))
    return replace(bounded, blocks=(every,))


class _Block:
    """The keys and arguments of one block."""

    def __init__(self, block: PrivateBlock, origin: FactSource) -> None:
        self.block, self.origin = block, origin
        self.rows = Columns(block.rows, origin)

    def bounded(self) -> BoundedBlock:
        arguments = self._arguments(self.origin)
        wide = self._wide(arguments) if any(arguments) else ()
        determined = [refs(key.expression) <= self.block.determined for key in self.block.keys]
        if self.block.groups is not None and self.block.keys:
            domain = self._listed(self.block.groups)
            arguments, wide = (self._doubted(facts, domain) for facts in (arguments, wide))
            combinations = 1 if all(determined) else None if domain is None else len(domain)
            tested = self._tested()
            return BoundedBlock(self.block, arguments, domain, combinations, tested, wide=wide)
        domains = [self.keys(key.expression) for key in self.block.keys]
        free = [domain for domain, fixed in zip(domains, determined, strict=True) if not fixed]
        expressions = [key.expression for key in self.block.keys]
        finite = [d for d in domains if d is not None]
        domain = None if domains else ((),)
        if domains and len(finite) == len(domains):
            domain = together(expressions, finite, self.rows)
        if domain is None:
            domain = listed(expressions, domains, self.block.rows, self.rows)
        arguments, wide = (self._doubted(facts, domain) for facts in (arguments, wide))
        # A domain limits a unit's groups only where keys outside it are dropped: the data
        # may contain values that the policy does not list.
        combinations = prod(len(d) for d in free if d is not None)
        if domain and domains:
            domain = possible(expressions, domain, self.block.rows, self.rows)
            places = [n for n, fixed in enumerate(determined) if not fixed]
            touched = max(1, len({tuple(row[n] for n in places) for row in domain}))
            combinations = touched if None in free else min(combinations, touched)
        limited = domain is not None or not free
        proved = combinations if limited else None
        within = tuple(self._within()) if domain is not None and domains else ()
        return BoundedBlock(
            block=self.block,
            arguments=arguments,
            domain=domain,
            key_combinations=proved,
            tested=self._tested(),
            within=within,
            wide=wide,
        )

    def _arguments(self, origin: FactSource) -> tuple[tuple[Facts, ...], ...]:
        """Return the facts of each measure's arguments, which are clipped to their intervals."""
        calls = [[arg for arg in m.call.args if _of_rows(arg)] for m in self.block.measures]
        if not any(calls):
            return tuple(() for _ in calls)
        rows = Columns(self.block.rows, replace(origin, clips=True))
        return tuple(tuple(map(rows.facts, args)) for args in calls)

    def _doubted(
        self, arguments: tuple[tuple[Facts, ...], ...], domain: tuple[Row, ...] | None
    ) -> tuple[tuple[Facts, ...], ...]:
        """Return the arguments; a single average excludes NULL wherever the engine does not forbid
        it.

        No other measure shares its count, so this costs nothing (PRIVACY.md R33). Elsewhere the
        policy is believed.
        """
        calls = [measure.call for measure in self.block.measures]
        if (
            not any(arguments)
            or domain is None
            or [c.function in AVERAGES for c in calls] != [True]
        ):
            return arguments
        doubting = Columns(self.block.rows, replace(self.origin, doubts=True))
        nullable = doubting.facts(calls[0].args[0]).nullable
        return ((replace(arguments[0][0], nullable=nullable),),)

    def _wide(self, arguments: tuple[tuple[Facts, ...], ...]) -> tuple[tuple[Facts, ...], ...]:
        """Return the numbers whose bounds are far larger than their values, and () for others.

        They are bounded under the largest assumed number of rows per unit only, as quotients
        (`QUOTIENTS`), or by the days that a policy assumes of all dates.
        """
        unbounded = [bool(each) and _is_unbounded(each[0]) for each in arguments]
        long = [bool(each) and _is_long(each[0]) for each in arguments]
        if not any(unbounded) and not any(long):
            return ()
        most = self._arguments(replace(self.origin, most_rows=MOST_ROWS, quotients=QUOTIENTS))
        calls = [measure.call for measure in self.block.measures]
        by_days = [
            each and _is_unbounded(self.rows.facts(call.args[0]))
            for each, call in zip(long, calls, strict=True)
        ]
        return tuple(
            facts if free or days else ()
            for facts, free, days in zip(most, unbounded, by_days, strict=True)
        )

    def _within(self) -> Iterator[Within]:
        """Yield the keys that are equal to a column of a stage in every row."""
        staged = [r for r in relations(self.block.rows) if isinstance(r, Staged)]
        columns = [(r.stage, n, f) for r in staged for n, f in enumerate(r.fields)]
        for place, key in enumerate(self.block.keys):
            if isinstance(key.expression, Ref) and key.expression.type.kind in _PLAIN:
                equal = self.rows.equal(key.expression.id)
                for stage, n, column in columns:
                    if column.id in equal and column.type == key.expression.type:
                        yield Within(place, stage, n)

    def _tested(self) -> dict[Expression, Facts]:
        calls = [node for measure in self.block.measures for node in walk(measure.call)]
        conditions = [e for e in calls if _of_rows(e) and type_of(e).kind is Kind.BOOLEAN]
        sides = [arg for e in conditions if isinstance(e, Call) for arg in e.args]
        return {e: self.rows.facts(e) for e in (*conditions, *sides)}

    def _listed(self, groups: Relation) -> tuple[Row, ...] | None:
        """Return the keys of the public side of a LEFT JOIN; None where they are too many
        to list.
        """
        expressions = tuple(key.expression for key in self.block.keys)
        rows = self.origin.public.distinct(groups, expressions, self.origin.limit + 1)
        return None if len(rows) > self.origin.limit else tuple(rows)

    def keys(self, expression: Expression) -> tuple[Value, ...] | None:
        """Return the values that a key can take, with NULL where it can be NULL.

        Parts of infinite moments are NULL too. They get no group: a unit with such a value is in
        none of the groups, like a unit with an unlisted value (`dpsql check` counts both).
        """
        facts = self.rows.image(expression) or self.rows.facts(expression)
        if facts.domain is None or len(facts.domain) > self.origin.limit:
            return None
        nullable = facts.nullable and self._finite().facts(expression).nullable
        return (*facts.domain, None) if nullable else facts.domain

    def _finite(self) -> Columns:
        """Return the columns under the assumption that no stored moment is infinite."""
        return Columns(self.block.rows, replace(self.origin, finite=True))


def _is_unbounded(facts: Facts) -> bool:
    return facts.type.is_numeric and not facts.interval.is_bounded


def _is_long(facts: Facts) -> bool:
    """Test whether a number has more places in its bounds than a choice has candidates."""
    lo, hi = facts.interval.lo, facts.interval.hi
    return isinstance(lo, Fraction) and isinstance(hi, Fraction) and hi - lo > LONGEST


def _of_rows(arg: Expression) -> bool:
    """Test whether the argument has a value in every row, unlike that of COUNT(*)."""
    return not any(isinstance(node, Star | AggregateCall) for node in walk(arg))
