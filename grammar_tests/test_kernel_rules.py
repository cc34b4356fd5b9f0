"""What the kernel states of relations, word for word: a rule that changes changes a pinned line.

`test_kernel.py` counts what is proved on databases. Here each line of `kernel_rules.txt` has all
statements about one relation, so that no part of a rule can change unseen. `--update` writes them:
each line that changes needs its proof again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.kernel.known import Closure, Columns, Proof, RowBound, Rows, products
from dpsql.model.algebra import (
    Field,
    Item,
    Relation,
)
from dpsql.model.tree import (
    INTEGER,
    Ref,
)
from dpsql.model.vocabulary import (
    FactKind,
    Policy,
)
from dpsql.model.walk import relations
from grammar_tests.kernel_relations import (
    BESIDE,
    COLUMNS,
    DETERMINING,
    MAY_BE_NULL,
    NO_KEYS,
    SEVERAL_TEXTS,
    TEXTS,
    about,
    agreeing,
    lacking,
    of_beds,
    others,
    policy,
    relation_of,
    scan_of,
    scanned,
    shared_keys,
    staged,
    unions,
)

PINNED = Path(__file__).parent / "kernel_rules.txt"
# --- statements in words ---


def numbers(columns: Sequence[int] | Columns) -> str:
    return ",".join(map(str, columns if isinstance(columns, tuple) else sorted(columns))) or "none"


def told(rows: Rows) -> Iterator[str]:
    """All statements about a relation, in one order."""
    assert isinstance(rows.local, bool)
    yield f"columns {numbers(rows.columns)}" + ("" if rows.local else " NOT LOCAL")
    yield from (f"owner {n}" for n in sorted(rows.owners))
    yield from sorted({f"{min(pair)}={max(pair)}" for pair in rows.equal if pair[0] != pair[1]})
    yield from [f"present {numbers(rows.present)}"] if rows.present else []
    for rule in rows.dependencies:
        unless = f" if {numbers(rule.present)}" if rule.present else ""
        yield f"{numbers(rule.given)}->{numbers(rule.then)}{unless}"
    yield from (f"{most.rows} by {numbers(most.columns)}" for most in rows.most)
    yield from (f"{lead.owner} is {lead.table}{lead.key}" for lead in rows.leads)
    yield from (f"{lead.owner} keyed {lead.table}{lead.key}" for lead in rows.keyed)
    yield from (f"{most} of {number}" for number, most in rows.spread)
    yield from (f"{rank} ranks {numbers(by)}" for rank, by in rows.ranks.items())
    for columns, there in rows.optional:
        yield f"where {numbers(columns)} ({'; '.join(told(there))})"


def found(proof: Proof, relation: Relation) -> str:
    values = [proof.most_values({f.id}) for f in relation.fields]
    most = f"rows {proof.most_rows()} values {values}" if proof.is_local else "nothing"
    return f"{most}; {'; '.join(told(proof.rows))}"


def measured(relation: Relation, columns: Sequence[Ref]) -> int:
    """Another number for each set of columns and of rows."""
    names = {f.id: f.name for part in relations(relation) for f in part.fields}
    return 100 * len(list(relations(relation))) + sum(len(names[c.id]) for c in columns) + 7


def kernel(of: Policy, **more: Any) -> Kernel:
    return Kernel(of, **{"frequency": measured, **more})


def stated(sql: str, of: Policy, **more: Any) -> str:
    relation = relation_of(sql, of)
    return found(kernel(of, **more).proof(relation, relation.fields[0].id), relation)


OF_COLUMNS: dict[FactKind, dict[str, Any]] = {
    FactKind.ONE_UNIT: DETERMINING,
    FactKind.SAME_UNIT: BESIDE,
}
SCANS = {
    f"{name} without {kind.name if kind else 'nothing'}": (name, kind)
    for name in COLUMNS
    for kind in (None, *FactKind)
    if kind is None or name in about(kind) or name in OF_COLUMNS.get(kind, ())
}


def lines() -> Iterator[str]:
    """The statements about each relation."""
    for name, (of, kind) in SCANS.items():
        facts = policy() if kind is None else lacking(kind)
        scan = scan_of(of, facts)
        yield f"{name}: {found(kernel(facts).proof(scan, scan.fields[0].id), scan)}"
    for name, sql in TEXTS.items():
        yield f"{name}: {stated(sql, policy())}"
    for name in ("people and visits", "a count by a key", "areas", "a card or none", "rn = 1"):
        yield f"{name}, keys shared: {stated(TEXTS[name], NO_KEYS)}"
        yield f"{name}, keys NULL: {stated(TEXTS[name], MAY_BE_NULL)}"
        yield f"{name}, unmeasured: {stated(TEXTS[name], policy(), frequency=None)}"


def odd_lines() -> Iterator[str]:
    for name, relation in shared_keys():
        for known, of in ("", policy()), (", not unique", lacking(FactKind.UNIQUE_KEY)):
            proof = kernel(of).proof(relation, relation.fields[0].id)
            yield f"{name}{known}: {found(proof, relation)}"
    for kind in FactKind.UNIQUE_KEY, FactKind.LINK_RESOLVES:
        for lost in ("stays", "beds"):
            relation = agreeing(of_beds((2, 0), (1, 1)))
            proof = kernel(lacking(kind, lost)).proof(relation, relation.fields[0].id)
            yield f"beds of stays, {lost} without {kind.name}: {found(proof, relation)}"
    for name, relation in unions():
        yield f"{name}: {found(kernel(policy()).proof(relation, relation.fields[0].id), relation)}"
    for name, relation, given in others():
        unit = min((f.id for f in relation.fields), default=0)
        yield f"{name}: {found(kernel(policy(), **given).proof(relation, unit), relation)}"
    for name, sql in SEVERAL_TEXTS.items():
        relation = relation_of(sql, policy())
        yield f"several {name}: {found(kernel(policy()).proof_of_several(relation), relation)}"
    of = policy()
    views = replace(of, tables=tuple(replace(t, view=True) for t in of.tables))
    for name in ("visits", "people"):
        scan = scan_of(name, of)
        yield f"a view of {name}: {found(kernel(views).proof(scan, scan.fields[0].id), scan)}"
    for kind in FactKind.LINK_RESOLVES, FactKind.NOT_NULL_LINK:
        for name, behind in ("labs", "visits"), ("notes", "profiles"):
            for lost in name, behind:
                facts = lacking(kind, lost)
                part = scan_of(name, facts)
                proof = kernel(facts).proof(part, part.fields[0].id)
                yield f"{name}, {lost} without {kind.name}: {found(proof, part)}"
    columns = replace(of, tables=tuple(t for t in of.tables if t.name != "people"))
    for name in ("visits", "stays", "labs"):
        part = scan_of(name, of)
        proof = kernel(columns).proof(part, part.fields[0].id)
        yield f"{name} of people without a table: {found(proof, part)}"
    computed = (Item(Field(990, "m", INTEGER), scan.fields[0].ref.eq(scan.fields[1].ref)),)
    proof = kernel(of).proof(scan, scan.fields[0].id, computed)
    yield f"computed columns: {proof.most_values({990})} of {'; '.join(told(proof.rows))}"


def test_what_is_stated_is_pinned(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):
        now = "\n".join([*lines(), *odd_lines(), ""])
        PINNED.write_text(now, encoding="utf-8")
    pinned = PINNED.read_text(encoding="utf-8").splitlines()
    for now, before in zip_longest(chain(lines(), odd_lines()), pinned):
        assert now == before


def test_a_kernel_of_a_policy_alone_knows_no_stage_no_key_and_measures_nothing() -> None:
    of = policy()
    alone, nothing = Kernel(of), kernel(of, frequency=None)
    assert alone == Kernel(of, (), (), None)
    for name, relation, _ in others():
        told_of = [found(each.proof(relation, 1), relation) for each in (alone, nothing)]
        assert told_of[0] == told_of[1], name


def test_a_stage_of_other_columns_is_no_stage() -> None:
    areas = scanned("areas")
    less = replace(staged(areas), fields=staged(areas).fields[:1])
    with pytest.raises(ValueError, match="shorter"):
        kernel(policy(), stages=(areas,)).rows_of(less)


def test_rows_that_a_key_tells_apart_are_not_counted() -> None:
    """Counting asks the database, once for each compilation."""

    def never(*_given: object) -> int:
        raise AssertionError

    assert stated(TEXTS["areas"], policy(), frequency=never) == stated(TEXTS["areas"], policy())
    with pytest.raises(AssertionError):
        stated(TEXTS["zones"], policy(), frequency=never)


def test_the_least_bounds_are_kept_of_many() -> None:
    bounds = [RowBound(frozenset({n}), 40 - n) for n in range(40)]
    kept = products(bounds, [], 1, None)
    assert kept == tuple(bounds[:-25:-1])
    assert len(kept) == 24
    one, two, both = (RowBound(frozenset(c), n) for c, n in (({1}, 2), ({1}, 3), ({1, 2}, 2)))
    assert products([two, both, one], [], 1, None) == (one,)


def test_a_bound_holds_where_its_columns_and_no_others_agree() -> None:
    closure, bounds = Closure(Rows(frozenset({1, 2}))), (RowBound(frozenset({1}), 3),)
    assert [closure.most(bounds, given) for given in ({1}, {1, 2}, {2})] == [3, 3, None]


def test_the_rows_of_few_tables_are_multiplied() -> None:
    for many, most in (5, 2**5), (6, None):
        numbers = frozenset(range(-many, 0))
        rows = Rows(
            numbers | {1},
            owners=frozenset({1}),
            most=(RowBound(numbers | {1}),),
            spread=tuple((n, 2) for n in sorted(numbers)),
        )
        assert Proof(rows, 1).most_rows() == most
