"""The plan in words and natural units, for the person who checks it.

Resolved expressions are shown with names of columns, without conversions; such texts never run.

    >>> from dpsql.model.tree import DOUBLE, INTEGER, Call, Cast, Literal, Ref
    >>> amount = Cast(Ref(1, INTEGER), DOUBLE)
    >>> product = Call("mul", (Call("sub", (amount, Literal(2.5, DOUBLE))), amount))
    >>> term(product, {1: "amount"})
    '(amount - 2.5) * amount'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import assert_never

from dpsql.compiler.calibrate.choices import rank_error
from dpsql.compiler.plan import measurement_kinds, private_plan
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.lattices import Choice, Histogram, RangeStrategy, TreeRelease
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.published_keys import ListedKeys, ThresholdKeys, TopKeys, TrialKeys
from dpsql.compiler.rewrite.rewrite import shown_sql
from dpsql.dialects.literal_sql import constant
from dpsql.dialects.operators import OPERATORS
from dpsql.dialects.sql_text import ATOM, MINUS, TEST, Text
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise
from dpsql.mechanisms.differences import distance, stretch
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.mechanisms.scores import Aim, Most, Peak, Rank, Reached
from dpsql.mechanisms.shown_counts import widening
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.truncated_geometric import KeyTrials
from dpsql.model.algebra import Relation
from dpsql.model.tree import (
    BOOLEAN,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    Star,
    WindowCall,
)
from dpsql.model.vocabulary import Loss, Mechanism, Noise, Norm, Policy
from dpsql.model.walk import both, conjuncts, relations
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.explanation import (
    BlockLines,
    ChoiceLine,
    FewerGroups,
    FewerRows,
    Help,
    LimitLine,
    PlanDescription,
    PublicKeys,
    ReleaseLine,
    TighterBounds,
    approximate,
)
from dpsql.preparation.withheld_names import WITHHELD, is_withheld


def description(
    prepared: Prepared,
    margins: tuple[float | None, ...],
    policy: Policy,
) -> PlanDescription:
    """Return a plan in words; `margins` are the expected half-widths of its columns."""
    plan, rewritten = prepared.plan, prepared.rewritten
    blocks = zip(prepared.blocks, rewritten.blocks, strict=True)
    return PlanDescription(
        columns=prepared.columns,
        blocks=tuple(describe(block, sql, policy) for block, sql in blocks),
        outer_sql=shown_sql(rewritten, dialects(policy.database)),
        stages=tuple(stage.sql for stage in rewritten.stages),
        charge=Loss(0) if plan is None else plan.loss,
        expected=margins,
        event=None if plan is None else plan.event,
        notes=() if plan is None else (*notes(plan), *_stored(rewritten, policy)),
        notices=prepared.notices,
        helps=helps(prepared.blocks),
    )


_SCALED = "enforced by clipping what each unit's totals add up to: max_per_unit"


def describe(
    plan: private_plan.BlockPlan, sql: private_plan.BlockSql, policy: Policy
) -> BlockLines:
    """Return one block as lines: unit, limits, keys, measurements, facts and SQL."""
    limits = (
        _limit("groups per unit (L0)", plan.groups, plan),
        _limit("rows per unit", plan.rows, plan),
        _limit("rows per unit and group", plan.rows_per_group, plan),
        *(
            LimitLine(f"{limit.name} of one unit in all", _number(limit.most), _SCALED)
            for limit in plan.totals
        ),
    )
    names, keys = labels(plan.block.rows), plan.keys
    # The number of values of each key along which differences are measured.
    along = [keys.sizes[n] for n in keys.along or ()] if isinstance(keys, ListedKeys) else []
    return BlockLines(
        unit=f"{policy.unit_name} ({policy.unit.neighbours.value})",
        limits=limits,
        keys=_keys(plan, names),
        releases=tuple(_release(r, names, _adjusted(r, plan), along) for r in plan.releases),
        facts=tuple(
            f"{f.table}: {f.kind.value} ({f.voucher.value})"
            for f in plan.block.facts
            if not is_withheld(f.table, policy)
        ),
        sql=WITHHELD if policy.beneath else sql.sql,
        choices=(
            *(_choice(choice, names) for choice in plan.choices),
            *(_tree(tree, names) for tree in plan.trees),
        ),
    )


def _limit(name: str, limit: private_plan.Contribution, plan: private_plan.BlockPlan) -> LimitLine:
    """Return a limit, and whether its basis is proved by the kernel or enforced in SQL."""
    how, claims = limit.how, plan.block.enforced
    if how.startswith("proved"):
        why = how.removeprefix("proved")
        left_out = "; ".join(claim.words for claim in claims)
        how = f"enforced: {left_out}" if claims else f"proved by the kernel{why}"
    return LimitLine(name, limit.value, how)


def _number(value: Fraction) -> float:
    return value.numerator if value.denominator == 1 else float(value)


def notes(plan: private_plan.PrivatePlan) -> Iterator[str]:
    """Yield sentences on measurements that are made to agree, or that private keys prevent
    from it.
    """
    for levels in plan.levels:
        joined = ", ".join(f"release_{table.block}" for table in levels.tables)
        yield (
            f"{joined} measure the same rows: their totals are made equal (weighted least squares)"
        )
    for block in plan.blocks:
        names = labels(block.block.rows)
        yield from (_of_ranges(each, names) for each in block.ranges)
    rows = [_rows(block) for block in plan.blocks]
    for n, block in enumerate(plan.blocks):
        if block.domain is None and rows.count(rows[n]) > 1:
            yield (
                f"release_{n} shows private keys, not all of them: they do not add up to totals "
                "of the same rows"
            )


def _stored(rewritten: private_plan.Rewritten, policy: Policy) -> Iterator[str]:
    """Yield a sentence on the prepared tables that are read."""
    listed = [name for name in rewritten.stored if not is_withheld(name, policy)]
    if listed:
        yield f"{', '.join(listed)}: read as dpsql prepare stored them"


def _of_ranges(strategy: RangeStrategy, names: Mapping[int, str]) -> str:
    """Return a sentence on the joint measurement of ranges, and the errors of its alternatives."""
    taken, by_cells, apart = map(approximate, strategy.errors)
    what = f"{strategy.count} ranges of {term(strategy.subject, names)}"
    if len(strategy.nodes) == 1:
        return (
            f"{what} are sums of {strategy.nodes[0]} disjoint counts, paid for once: a range errs "
            f"by about {taken}; one by one by {apart}"
        )
    levels = ", ".join(map(str, strategy.nodes))
    return (
        f"{what} are read from a tree of {levels} counts, each level paid for once, which are made "
        f"to agree (weighted least squares): a range errs by about {taken}; by the lowest level "
        f"alone by {by_cells}; one by one by {apart}"
    )


_MANY_CELLS = 10_000
"""Number of candidates from which on a quantile errs less within tighter bounds."""


def helps(blocks: Sequence[private_plan.BlockPlan]) -> tuple[Help, ...]:
    """Return advice that reduces the errors of these blocks, or hides less, without repetition."""
    return tuple(dict.fromkeys(help_ for block in blocks for help_ in _helps(block)))


def _helps(plan: private_plan.BlockPlan) -> Iterator[Help]:
    names = labels(plan.block.rows)
    if plan.block.keys and plan.domain is None:
        yield PublicKeys(tuple(key.field.name for key in plan.block.keys))
    rows = plan.rows_per_group.value
    # If contributions are found privately, noise is proportional to them and not to declared
    # limits.
    sums = [] if rows is None else list(filter(measurement_kinds.adds_rows, plan.queries))
    written = {argument for measure in plan.block.measures for argument in measure.call.args}
    for query in sums:
        if not isinstance(query, measurement_kinds.ValueTotal) or query.argument not in written:
            continue
        if query.upper - query.lower > 1:
            step = float(query.lattice.step)
            yield TighterBounds(term(query.argument, names), query.lower * step, query.upper * step)
    if sums and rows is not None and rows > 1:
        yield FewerRows(rows)
    grids = {c.query.histogram.argument: c.query.histogram.grid for c in plan.choices}
    for argument, grid in grids.items():
        if grid.cells > _MANY_CELLS and grid.kind.is_numeric and argument in written:
            lower, upper = (float(end * grid.lattice.step) for end in (grid.lower, grid.upper))
            yield TighterBounds(term(argument, names), lower, upper)
    scaled = any(isinstance(query, measurement_kinds.ScaledTotal) for query in plan.queries)
    # Rows of several units in many groups cost no more noise than in one (PRIVACY.md R4).
    if plan.l0 > 1 and not (scaled or plan.block.several):
        yield FewerGroups(plan.l0)


def _keys(plan: private_plan.BlockPlan, columns: Mapping[int, str]) -> str:
    names = ", ".join(key.field.name for key in plan.block.keys)
    if not plan.block.keys:
        return ""
    keys = plan.keys
    match keys:
        case TopKeys():
            return f"{names}: {_top(plan, keys, columns)}"
        case ListedKeys(shown=True):
            return f"{names}: the values that are shown first, each then measured as if listed"
        case ListedKeys(domain=domain, along=along):
            each = f"{names}: {len(domain)} public keys, each answered, empty ones too"
            within = " and ".join(plan.block.keys[place].field.name for place in along or ())
            return f"{each}; differences within {within} alone are measured" if along else each
        case ThresholdKeys(threshold=chosen) | TrialKeys(trials=chosen):
            rival = "" if keys.runner_up is None else f"; otherwise: {_shown(keys.runner_up)}"
            return f"{names}: private keys; {_shown(chosen)}{rival}"
        case _:
            assert_never(keys)


def _top(plan: private_plan.BlockPlan, keys: TopKeys, names: Mapping[int, str]) -> str:
    top, scored = keys.top, keys.unreleased
    step = float(scored.lattice.step)
    which = "lowest" if top.lowest else "highest"
    mechanism = "permute-and-flip" if top.flips else "exponential mechanism"
    measured = ", and then measured" if plan.releases else ""
    return (
        f"{top.count} of {top.keys} public keys, chosen one after another by the {which} "
        f"{_summed(scored, names)} ({_bounds(scored)}; {mechanism}, ε = "
        f"{float(top.epsilon):.3g} each){measured}; a key passed over exceeds the one chosen by "
        f"at most {top.error * step:.4g} at 95 %; otherwise: every key with noise, by at most "
        f"{keys.otherwise * step:.4g}"
    )


def _shown(selection: Threshold | KeyTrials) -> str:
    match selection:
        case Threshold():
            columns = selection.counted.columns
            summed = f", the sum of its first {columns} measurements," if columns > 1 else ""
            return (
                f"a key is shown if its noisy unit count{summed} reaches {selection.units:.6g} "
                f"(δ = {float(selection.delta):.3g}){_near(selection)}"
            )
        case KeyTrials():
            delta = selection.delta * selection.keys
            return (
                f"a key of {selection.even} units is shown every other time, of "
                f"{selection.certain} always, by a trial each with truncated geometric odds "
                f"(δ = {float(delta):.3g})"
            )
        case _:
            assert_never(selection)


def _near(threshold: Threshold) -> str:
    """Return a remark on counts near a threshold, which noise may have lifted."""
    wider = widening(threshold)
    if wider is None:
        return ""
    return (
        f"; a count below about {wider.until / threshold.counted.unit:.4g} may be that of a much "
        "smaller group, which noise has lifted: its margin reaches as far"
    )


def _adjusted(release: private_plan.Release, plan: private_plan.BlockPlan) -> str:
    adjusted = any(release.field.id in agreement.places for agreement in plan.agreements)
    return ", then adjusted to agree with the others of its rows" if adjusted else ""


def _release(
    release: private_plan.Release, names: Mapping[int, str], adjusted: str, along: Sequence[int]
) -> ReleaseLine:
    """Return one measurement as a line; for differences along keys, with the errors of the
    cells.
    """
    query, step = release.query, float(release.query.released.step)
    scale, read = float(release.noise.scale), step / stretch(along)
    later, rival = release.field.id != release.payment.columns[0], release.payment.runner_up
    if release.noise.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        scale = sqrt(scale)
    return ReleaseLine(
        output=_measured(release, names),
        bounds=_bounds(query) + (", paid for with the line above" if later else "") + adjusted,
        lower=query.total_lower * step,
        upper=query.total_upper * step,
        l0=release.sensitivity.l0 // distance(along),
        linf=release.sensitivity.linf * step,
        step=step,
        mechanism=release.noise.mechanism.value + _common(release.payment.noise, step),
        scale=scale * read,
        error=standard_deviation(release.noise) * read,
        margin=margin(release.noise) * read,
        otherwise="" if rival is None else _otherwise(rival, step),
    )


def _common(noise: Noise | CorrelatedNoise | MatrixNoise, step: float) -> str:
    """Return a remark on noise of several groups: which sums it is less in, and which more."""
    if isinstance(noise, Noise):
        return ""
    if isinstance(noise, MatrixNoise):
        way = (
            f"a tree of {noise.strategy.branching} branches"
            if noise.strategy.branching
            else "square root"
        )
        return (
            f" (running sums of {noise.strategy.size} groups measured together by the {way}: they "
            f"err by {approximate(sqrt(noise.variances.max()) * step)} at most, one group alone by "
            f"{approximate(sqrt(noise.largest_of_one) * step)})"
        )
    shared, groups = float(noise.shared), noise.reached.groups
    total = groups * (float(noise.alone.scale) + (groups - 1) * shared)
    return (
        f" ({approximate(sqrt(shared) * step)} of it shared by all {groups} groups, "
        f"whose sum errs by {approximate(sqrt(total) * step)})"
    )


def _otherwise(noise: Noise, step: float) -> str:
    price = f", δ = {float(noise.delta):.3g}" if noise.delta else ""
    return f"{noise.mechanism.value}, error {approximate(standard_deviation(noise) * step)}{price}"


def _measured(release: private_plan.Release, names: Mapping[int, str]) -> str:
    query, test = release.query, release.stability
    summed = _summed(query, names)
    if not isinstance(query, measurement_kinds.StableMean) or test is None:
        return summed
    delta = f"δ = {float(test.delta):.3g}"
    return f"{summed}, shown if the noisy count of its test is {test.least} ({delta})"


def _summed(query: measurement_kinds.Measurement, names: Mapping[int, str]) -> str:
    match query:
        case measurement_kinds.UnitCount():
            return f"number of units{where(query.condition, None, names)}"
        case measurement_kinds.RowCount():
            return f"number of rows{where(query.condition, None, names)}"
        case measurement_kinds.RowTest():
            return f"test of at least {query.rows} rows{where(query.condition, None, names)}"
        case measurement_kinds.ScaledTotal(total=total):
            return _summed(total, names)
        case measurement_kinds.BlockAverage():
            return f"sum of {term(query.argument, names)} over {query.blocks} blocks of units"
        case measurement_kinds.DistinctCount():
            what = "number of distinct values of"
        case measurement_kinds.DistinctSum(values=values, argument=argument):
            what = "centred sum of" if query.centre else "sum of"
            filtered = where(query.condition, values.argument, names)
            once = f", each {term(values.argument, names)} once"
            return f"{what} {term(argument, names)}{once}{filtered}"
        case measurement_kinds.StableMean():
            what = "mean of"
        case measurement_kinds.ClippedSum():
            what = "centred sum of" if query.centre else "sum of"
        case _:
            assert_never(query)
    filtered = where(query.condition, query.argument, names)
    return f"{what} {term(query.argument, names)}{filtered}"


def _bounds(query: measurement_kinds.Measurement) -> str:
    match query:
        case measurement_kinds.DistinctCount():
            how = "chosen by a keyed hash" if query.chosen else "proved: no unit has more"
            each = "each unit and group" if query.norm is Norm.MAX else "each unit in all groups"
            return f"at most {query.total_upper} of {each}, {how}"
        case (
            measurement_kinds.RowCount()
            | measurement_kinds.UnitCount()
            | measurement_kinds.RowTest()
        ):
            return "each counts 1"
        case measurement_kinds.ScaledTotal(total=total):
            bound = query.bound * float(query.released.step)
            return (
                f"{_bounds(total)}; {query.norm} norm of each unit over groups scaled to {bound:g}"
            )
        case measurement_kinds.DistinctSum(values=values):
            each = f"{_bounds(values)}; each"
        case measurement_kinds.BlockAverage():
            each = "each block, chosen by a keyed hash of the unit,"
        case measurement_kinds.ClippedSum() | measurement_kinds.StableMean():
            each = "each row"
        case _:
            assert_never(query)
    step = float(query.lattice.step)
    centre = f", minus {query.centre * step:g}" if query.centre else ""
    return f"{each} in [{query.lower * step:g}, {query.upper * step:g}]{centre}"


def _choice(choice: Choice, names: Mapping[int, str]) -> ChoiceLine:
    """Return one choice as a line."""
    histogram = choice.query.histogram
    rival = choice.otherwise
    return ChoiceLine(
        output=_aim(histogram, choice.aim, names),
        bounds=_cells(histogram),
        candidates=histogram.grid.cells,
        l0=choice.rounds,
        rows=histogram.rows,
        mechanism=_mechanism(choice),
        scale=f"ε = {float(choice.epsilon):,.4g}",
        expected=choice.expected,
        reach=rank_error(choice),
        otherwise="" if rival is None else f"a tree of counts, error {approximate(rival)}",
    )


def _tree(tree: TreeRelease, names: Mapping[int, str]) -> ChoiceLine:
    """Return the quantiles read from one tree as a line."""
    noise, shape, histogram = tree.noise, tree.shape, tree.histogram
    fractions = ", ".join(f"{float(rank.fraction):.6g}" for rank in tree.ranks)
    ends = any(rank.is_extreme for rank in tree.ranks)
    reached = f", ends reached by {tree.reserve} rows" if ends else ""
    return ChoiceLine(
        output=f"quantiles {fractions}{_of(histogram, names)}{reached}",
        bounds=_cells(histogram),
        candidates=histogram.grid.cells,
        l0=tree.sensitivity.l0 // shape.levels,
        rows=histogram.rows,
        mechanism=f"tree of {shape.levels} levels by {shape.branching}, {noise.mechanism.value}",
        scale=f"{standard_deviation(noise):,.4g} a count",
        expected=tree.error,
        reach=tree.error * margin(noise) / standard_deviation(noise),
        otherwise=f"a choice for each, error {approximate(tree.otherwise)}",
    )


def _of(histogram: Histogram, names: Mapping[int, str]) -> str:
    filtered = where(histogram.condition, histogram.argument, names)
    return f" of {term(histogram.argument, names)}{filtered}"


def _aim(histogram: Histogram, aim: Aim, names: Mapping[int, str]) -> str:
    of, filtered = _of(histogram, names), where(histogram.condition, None, names)
    match aim:
        case Most():
            return f"most frequent value{of}"
        case Peak(options=options, lowest=lowest, rows=rows):
            units = "unit" if rows == 1 else "units"
            end = "lowest" if lowest else "highest"
            return f"which of {options} values {rows} {units} reach the {end} level with{filtered}"
        case Rank() if aim.is_extreme:
            name = "maximum" if aim.numerator else "minimum"
            units = "unit" if aim.rows == 1 else "units"
            return f"{name}{of}, reached by {aim.rows} {units}"
        case Reached(highest=highest, rows=rows):
            name = "maximum" if highest else "minimum"
            return f"{name}{of}, reached by {rows} noisy units"
        case Rank():
            return f"quantile {float(aim.fraction):.6g}{of}"
        case _:
            assert_never(aim)


def _mechanism(choice: Choice) -> str:
    if choice.scan is not None:
        return "sparse vector"
    return "permute-and-flip" if choice.flips else "exponential"


def _cells(histogram: Histogram) -> str:
    grid = histogram.grid
    ends = f"[{grid.value(grid.lower)}, {grid.value(grid.upper)}]"
    each = "each value" if grid.width == 1 else f"{grid.cells} equal cells"
    listed = f"{grid.cells} listed values" if grid.values else f"{each} in {ends}"
    choice = histogram.contributed.value
    return f"{listed}; of each unit and group at most {histogram.rows} rows, {choice}"


def _rows(block: private_plan.BlockPlan) -> str:
    writer = Writer()
    writer.number(block.block.rows)
    return writer.write((block.block.rows, block.block.unit))


_LONGEST = 120


def term(expression: Expression, names: Mapping[int, str]) -> str:
    """Return the expression, with `names` of columns; a very long text is cut."""
    text = _text(expression, names).sql
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def labels(rows: Relation) -> dict[int, str]:
    """Return the names of all columns that are read on the way to these rows."""
    return {field.id: field.name for below in relations(rows) for field in below.fields}


def where(
    condition: Expression | None, argument: Expression | None, names: Mapping[int, str]
) -> str:
    """Return the condition on counted rows, without the obvious test that the argument exists.

    >>> from dpsql.model.tree import BOOLEAN, INTEGER, Call, Ref
    >>> age = Ref(1, INTEGER)
    >>> known = Call("not", (Call("is_null", (age,), BOOLEAN),), BOOLEAN)
    >>> where(known, age, {1: "age"}), where(known, None, {1: "age"})
    ('', ' where age IS NOT NULL')
    """
    absent = Call("is_null", () if argument is None else (argument,), BOOLEAN)
    there = Call("not", (absent,), BOOLEAN)
    others = both(tuple(part for part in conjuncts(condition) if part != there))
    return "" if others is None else f" where {term(others, names)}"


def _text(e: Expression, names: Mapping[int, str]) -> Text:
    match e:
        case Literal():
            text = _constant(e)
            return Text(text, e.type, MINUS if text.startswith("-") else ATOM)
        case Ref():
            return Text(names.get(e.id, "…"), e.type)
        case Star():
            return Text("*", BOOLEAN)
        case Cast():
            return _cast(e, names)
        case Call(function="not", args=(Call(function="is_null", args=(arg,)),)):
            return Text(f"{_text(arg, names).operand(TEST)} IS NOT NULL", e.type, TEST)
        case Call(function=function) if function in OPERATORS:
            return OPERATORS[function](tuple(_text(arg, names) for arg in e.args), e.type)
        case Call() | AggregateCall() | WindowCall():
            return _named(e, names)
        case Name() | ScalarQuery() | Membership():
            raise AssertionError(e)
        case _:
            assert_never(e)


def _constant(literal: Literal) -> str:
    match literal.value:
        case int() | float() | Decimal() as number if not isinstance(number, bool):
            return f"{number:.15g}"
        case _:
            return constant(literal)


def _cast(cast: Cast, names: Mapping[int, str]) -> Text:
    """Return a cast; a conversion among numbers is left out."""
    arg = _text(cast.arg, names)
    if cast.type.is_numeric and (arg.type.is_numeric or isinstance(cast.arg, Literal)):
        return Text(arg.sql, cast.type, arg.level)
    return Text(f"CAST({arg.sql} AS {cast.type})", cast.type)


def _named(call: Call | AggregateCall | WindowCall, names: Mapping[int, str]) -> Text:
    listed = ", ".join(_text(arg, names).sql for arg in call.args)
    if isinstance(call, Call):
        return Text(f"{call.function}({listed})", call.type)
    distinct = "DISTINCT " if call.distinct else ""
    filtered = "" if call.filter is None else f" FILTER (WHERE {_text(call.filter, names).sql})"
    over = " OVER (…)" if isinstance(call, WindowCall) else ""
    return Text(f"{call.function.upper()}({distinct}{listed}){filtered}{over}", call.type)
