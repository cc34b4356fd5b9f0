"""Words of every refusal: one row per reason; tests fail if a row is missing.

Headline, why and fix are alternatives in order: the first with known `{facts}` is used. Every
headline and why ends with an alternative without facts.
"""

from __future__ import annotations

from enum import IntEnum

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason

Alternatives = tuple[str, ...]


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    ANSWERED = 0
    BAD_INPUT = 1
    USAGE = 2
    PRIVACY = 3
    BUDGET = 4
    UNREACHABLE = 5
    CANCELLED = 130


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of a reason: exit code, SQLSTATE, and alternatives for three sentences."""

    exit_code: ExitCode
    sqlstate: str
    headline: Alternatives
    why: Alternatives
    fix: Alternatives = ()


def _input(state: str, headline: Alternatives, why: str, *fix: str) -> Wording:
    return Wording(ExitCode.BAD_INPUT, state, headline, (why,), fix)


def _privacy(state: str, headline: Alternatives, why: Alternatives, *fix: str) -> Wording:
    return Wording(ExitCode.PRIVACY, state, headline, why, fix)


_SAYS_WHAT = (
    "Did you mean {near}? There are: {known}.",
    "Did you mean {near}?",
    "Columns of {holders}: {known}.",
    "Write one of these: {known}.",
    "See the policy for what exists.",
)

_NEEDS = "It needs ε = {epsilon} ({needed}), and {share} is left ({left} of {limit})"

_LEAP = (
    "The clock leapt to {leap}, and nothing renews until the owner confirms the clock "
    "(dpsql help renewals)."
)

WORDINGS: dict[Reason, Wording] = {
    Reason.SYNTAX: _input(
        "42601",
        ("Syntax error: {why}.", "Syntax error."),
        "The text could not be read as one SELECT statement.",
        "Check the spelling here, and that {by_dialect} fits the text.",
        "Check the spelling here.",
    ),
    Reason.TOO_LARGE: Wording(
        ExitCode.BAD_INPUT,
        "54001",
        ("The query has too many {what}.", "The query is too large."),
        (
            "{why}",
            "Size and depth of a query are limited, so that compiling it cannot exhaust the proxy.",
        ),
        (
            "{fix}",
            "At most {limit} are allowed: split the query.",
            "Split the query, or write it more flatly.",
        ),
    ),
    Reason.UNKNOWN_TABLE: Wording(
        ExitCode.BAD_INPUT,
        "42P01",
        (
            "{table} was published on {old}, and the data changed since.",
            "There is no table {table}.",
            "{qualifier} is called {alias} here.",
            "{qualifier} is not in FROM.",
            "There is no such table.",
        ),
        (
            "In this query the table goes by the name {alias} alone.",
            "After a refresh its numbers, of {old}, are out of date.",
            "Only tables that the owner lists in the policy exist here.",
        ),
        (
            "Ask the owner to publish it again: its numbers are of {old}.",
            "Write {alias} before the column.",
            *_SAYS_WHAT[:-1],
            "FROM has: {sources}.",
            _SAYS_WHAT[-1],
        ),
    ),
    Reason.UNKNOWN_COLUMN: Wording(
        ExitCode.BAD_INPUT,
        "42703",
        (
            "The SELECT list has no position {position}.",
            "There is no column {column} in {table}.",
            "There is no column {column}.",
            "There is no such column.",
        ),
        (
            "A whole number here is a position in the SELECT list, and the last is {last}.",
            "A private table has only the columns that the owner lists in the policy.",
        ),
        ("Write a position from 1 to {last}, or the expression itself.", *_SAYS_WHAT),
    ),
    Reason.AMBIGUOUS_COLUMN: _input(
        "42702",
        ("{column} could be more than one column.", "This name is ambiguous."),
        "Several tables in FROM have a column of this name.",
        "Write table.{column}.",
        "Write the table's name before the column's.",
    ),
    Reason.UNKNOWN_FUNCTION: _input(
        "42883",
        (
            "There is no function {name}.",
            "There is no function {function}.",
            "There is no such function.",
        ),
        "Only functions with a rule are called; a function without one is never passed on.",
        "{fix}",
        "Did you mean {near}? {by_manual} lists the functions.",
        "Did you mean {near}?",
        "{by_manual} lists the functions.",
        "The page on SQL lists the functions.",
    ),
    Reason.TYPE_MISMATCH: _input(
        "42804",
        (
            "'{text}' cannot be read as {kind}.",
            "{function} does not take ({types}).",
            "{function} does not fit.",
            "The types do not fit.",
        ),
        "Types are decided from the schema before anything runs.",
        "Write a value of type {kind} here.",
        "CAST an argument to a type that fits, as in CAST(x AS DOUBLE).",
    ),
    Reason.NOT_GROUPED: _input(
        "42803",
        ("{column} is neither grouped nor aggregated.", "A column is not grouped."),
        "Each output of a grouped query is a group key or an aggregate.",
        "Add {column} to GROUP BY, or aggregate it.",
        "Add it to GROUP BY, or aggregate it.",
    ),
    Reason.MISPLACED_AGGREGATE: _input(
        "42803",
        (
            "{name} may not stand in {clause}.",
            "{name} may not stand inside an aggregate.",
            "An aggregate may not stand here.",
        ),
        "Aggregates belong in SELECT, HAVING and ORDER BY, and do not nest.",
        "Compute it in a subquery in FROM.",
    ),
    Reason.BAD_PARAMETER: _input(
        "07001",
        ("Bad parameter: {why}.", "The parameters do not fit the placeholders."),
        "Each ? takes one value: a boolean, a number, a string, a date, a timestamp or NULL.",
        "Placeholders in the text: {expected}; values given: {given}.",
        "Give one value for each ? in the text.",
    ),
    Reason.BAD_OPTION: _input(
        "22023",
        (
            "There is no option {unknown}.",
            "Option {option} is not valid: {why}.",
            "Option {option} cannot be {value}.",
            "Option {option} is not valid.",
            "An option is not valid.",
        ),
        "Options can only ask for less than the policy allows, or for larger groups.",
        *_SAYS_WHAT[:-1],
        "Leave it out, or write it as the page on answers says.",
    ),
    Reason.UNKNOWN_NAME: _input(
        "22023",
        (
            "There is no {role} {name}.",
            "The {role} {lost} cannot be made again from remembered answers.",
            "There are several: say which {role}.",
            "There is no such name.",
        ),
        "Analysts and budgets are those that the policy names, users those that the owner added;"
        " models and synthetic tables are of the analyst who made them.",
        "Create {lost} again: that is free if its measurements are remembered.",
        "Choose by {by_analyst}: {analysts}.",
        *_SAYS_WHAT[:-1],
        "Ask the owner of the policy.",
    ),
    Reason.UNDECIDED_POLICY: _input(
        "55000",
        ("The policy is not finished.",),
        "The data owner has decisions left to make, and nothing is answered until then.",
        "Ask the data owner to replace every DECIDE in the policy file.",
    ),
    Reason.UNSUPPORTED_SYNTAX: _privacy(
        "0A000",
        ("Not supported: {construct}.", "This syntax is not supported."),
        ("No privacy rule exists for it, and nothing runs without a rule.",),
        "Write it differently: {by_manual} lists the supported SQL.",
        "Write it differently: the page on SQL lists the supported SQL.",
    ),
    Reason.UNSUPPORTED_STATEMENT: _privacy(
        "0A000",
        ("Only SELECT is answered, not {construct}.", "Only SELECT is answered."),
        ("The proxy reads and never writes; catalogue questions go to the policy.",),
        "Write one SELECT statement.",
    ),
    Reason.RAW_ROWS: _privacy(
        "42501",
        ("This would return rows of {table}.", "This would return private rows."),
        ("Only aggregates over many people leave the database.",),
        "Aggregate the rows: COUNT, SUM or AVG, with GROUP BY if you need groups.",
    ),
    Reason.HIDDEN_COLUMN: _privacy(
        "42501",
        ("Column {column} is hidden.", "This column is hidden."),
        (
            "It names people, and {others} declares no link for it: they would not be protected.",
            "The owner declared that it exists and may not be used.",
        ),
        "Ask the owner to add it to the links of {others}.",
        "Use another column: DESCRIBE lists those of its table.",
    ),
    Reason.UNBOUNDED_INPUT: _privacy(
        "42501",
        (
            "{name} of {column} has no bounds.",
            "Column {column} has no bounds.",
            "This expression has no bounds.",
        ),
        ("Noise is sized to the most one person can add, and nothing limits that here.",),
        "Clip it: LEAST(GREATEST({column}, low), high), WHERE {column} IS NOT NULL; or ask the"
        " owner to declare its bounds.",
        "Clip it: LEAST(GREATEST(x, low), high), WHERE x IS NOT NULL; or ask the owner to declare"
        " bounds.",
    ),
    Reason.UNBOUNDED_CONTRIBUTION: _privacy(
        "42501",
        ("One person may add any number of rows or groups here.",),
        ("Noise is sized to what one person can add, and the policy sets no limit for it.",),
        "Ask the owner to set {limit} for {table}.",
        "Ask the owner to set {limit}.",
        "Ask the owner to set max_rows_per_unit or max_groups_per_unit.",
    ),
    Reason.UNSUPPORTED_AGGREGATE: _privacy(
        "0A000",
        (
            "{name} has no privacy rule.",
            "{function} has no privacy rule.",
            "This aggregate has no privacy rule.",
        ),
        ("The effect of one person on it is not known, so its noise cannot be sized.",),
        "Counts, sums, averages, quantiles and their kin are answered; {by_manual} lists them.",
        "Counts, sums, averages, quantiles and their kin are answered; the page on SQL lists them.",
    ),
    Reason.UNSUPPORTED_FUNCTION: _privacy(
        "0A000",
        (
            "{written} may not be used.",
            "{name} may not be used.",
            "{function} may not be used.",
            "This function is refused.",
        ),
        (
            "Some arguments of {written} have to be constants with which it fails on no row.",
            "It is volatile, or has no form that cannot fail on some data.",
        ),
        "Write other constants in {written}, or compute it over the released result.",
        "Write a constant instead, or compute it over the released result.",
    ),
    Reason.ENGINE_LACKS: _privacy(
        "0A000",
        ("Not supported on {engine}: {construct}.", "This is not supported on the database."),
        ("It has no exact form there that cannot fail on some row.",),
        "Write it otherwise, or compute it over the released result.",
    ),
    Reason.UNEQUAL_UNITS: _privacy(
        "42501",
        ("This would join rows of different people.",),
        (
            "No recorded fact of the owner bounds both sides. Missing: {lacking}.",
            "Private tables are joined only where the condition makes both rows one person's.",
        ),
        "Join along the declared links, or on the unit's key.",
    ),
    Reason.UNSUPPORTED_PRIVATE_OPERATOR: _privacy(
        "42501",
        ("Not possible: {construct}.", "This is not possible over private rows."),
        ("One person's rows would depend on other people's, or no rule exists yet.",),
        "Do it after the aggregation: SELECT … FROM (SELECT …, COUNT(*) … GROUP BY …).",
    ),
    Reason.UNIT_KEY_EXPOSED: _privacy(
        "42501",
        ("{column} identifies people, or single rows of theirs.", "This identifies people."),
        ("Each row of the result would be about one person.",),
        "Aggregate once more: SELECT AVG(x) FROM (SELECT {column}, … AS x … GROUP BY {column});"
        " or group by what many people share.",
        "Aggregate once more, over the people; or group by what many of them share.",
    ),
    Reason.PRIVATE_KEYS_NEED_DELTA: _privacy(
        "55000",
        ("The groups themselves are private, and the budget has no δ for them.",),
        ("To publish which groups exist takes a δ above zero.",),
        "Group by columns with declared values, or ask the owner for a query_delta above 0"
        " without only_public_keys.",
    ),
    Reason.EPSILON_TOO_LARGE: _privacy(
        "53400",
        ("ε = {epsilon} is more than one query may ask for.", "ε is more than one query may cost."),
        ("The owner limits one query to ε = {limit}.", "The owner limits what one query may cost."),
        "With ε = {limit} the worst of these numbers errs by about {reaches}. What was spent to see"
        " this stays spent; its answer is free at ε = {paid}.",
        "Ask for at most {limit}: the largest ± is {gives} then.",
        "Ask for at most {limit}.",
        "Ask for less.",
    ),
    Reason.NOT_USEFUL: Wording(
        ExitCode.BUDGET,
        "53400",
        (
            "This cannot be useful: the noise hides {noise} of {units}, and at most {most} count.",
            "This cannot be useful: groups have at most {most} of {units} and need about {least}.",
            "This cannot be useful.",
        ),
        (
            "It would cost ε = {epsilon} ({needed}) all the same.",
            "It would be charged as any.",
        ),
        (
            "Ask about more of them, or for a larger ε ({by_epsilon}); or insist: {by_confirm}.",
            "Ask about more of them, or for a larger ε.",
        ),
    ),
    Reason.BUDGET_EXHAUSTED: Wording(
        ExitCode.BUDGET,
        "53400",
        (
            "The limit of {cap} cannot pay for cube {cube}.",
            "The limit of {cap} for {window} cannot pay for this query.",
            "The limit of {cap} cannot pay for this query.",
            "Budget {budget} cannot pay for this query in {window}.",
            "Budget {budget} cannot pay for this query in the period {period}.",
            "Budget {budget} cannot pay for this query.",
            "The budget cannot pay for this query.",
        ),
        (
            "Cube {cube} answers it and is paid as a whole: {needed}; left is {left} of {limit}.",
            f"{_NEEDS}: a question of ε = {{fits}} fits.",
            f"{_NEEDS}: {{nothing}} fits.",
            "It needs {needed}; left is {left} of {limit}.",
            "It needs {needed}; left is {left}.",
            "A charge is never refunded.",
        ),
        (
            "Ask without cube {cube}, with OPTIONS(memory = 'off'), or ask the owner.",
            "Leave {period} out, which charges nothing to it: {without}.",
            "Ask with {by_fitting}, repeat an earlier question (free), or wait until {renewal}.",
            "Repeat an earlier question (free), or wait: it renews on {renewal}.",
            f"Repeat an earlier question (free). {_LEAP}",
            "Ask with {by_fitting}, repeat an earlier question (free), or ask the owner.",
            "Repeat an earlier question (free), or ask the owner: {nothing} can be paid for.",
            "Ask for less with {by_epsilon}, repeat an earlier question (free), or ask the owner.",
            "Ask for less, repeat an earlier question (free), or ask the owner.",
        ),
    ),
    Reason.ALARMS_USED: Wording(
        ExitCode.BUDGET,
        "53400",
        ("The monitor has given its {alarms} alarms.", "The monitor has given all its alarms."),
        ("The charge at its opening covers this number of alarms and no more.",),
        ("Open another monitor, which is charged again; earlier questions stay free.",),
    ),
    Reason.ANALYST_STOPPED: Wording(
        ExitCode.BUDGET,
        "53400",
        ("{analyst} may ask nothing new for now.", "Nothing new may be asked for now."),
        (
            "{late} answers came later than predicted, and how late they came may tell something.",
            "Too many answers came later than predicted, which may tell something.",
        ),
        ("Ask the owner; earlier questions stay free.",),
    ),
    Reason.STOPPED_BY_OWNER: Wording(
        ExitCode.BUDGET,
        "53400",
        (
            "{analyst} may ask nothing new for now.",
            "Nothing new is charged to budget {budget} for now.",
            "Nothing new may be asked for now.",
        ),
        ("The owner has stopped it.",),
        ("Ask the owner; earlier questions stay free.",),
    ),
    Reason.LIMIT_CHANGED: Wording(
        ExitCode.BUDGET,
        "53400",
        (
            "The policy has another limit for {title} than the owner confirmed.",
            "The policy has other limits than the owner confirmed.",
        ),
        ("Nothing is charged until the owner confirms the new limit or restores the old one.",),
        ("Ask the owner: dpsql budget confirm. Earlier questions stay free.",),
    ),
    Reason.DELEGATION_ENDED: Wording(
        ExitCode.BUDGET,
        "42501",
        ("{analyst} may ask nothing any more.", "This agent may ask nothing any more."),
        ("The delegation to {agent} has ended.", "Its delegation has ended."),
        ("Ask the owner: dpsql user delegate.",),
    ),
}
