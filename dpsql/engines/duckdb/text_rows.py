"""SQL that makes rows of lines; it cannot fail, and reads one line for each row.

A line is split into fields, and each field is converted by an expression that cannot fail. A field
that does not convert is NULL. Missing fields are NULL, and fields beyond the last column are not
read. A quote that is not closed on its line is an ordinary character. A long line with very many
fields is cut: the list of these would take many times the memory of the line.

Proof (PRIVACY.md R100). Each expression reads one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpsql.engines.duckdb.files import name, text
from dpsql.engines.duckdb.text_lines import NO_TEXT, SEPARATOR, LineFile
from dpsql.model.dataclass import dataclass
from dpsql.model.file_formats import FileColumn, FileFormat

_ROOM = 1 << 25
"""Bytes of DuckDB's buffer, which holds several lines."""
_RAW, _LINE, _SPLIT = '"=raw"', '"=line"', '"=fields"'
"""Columns of a line as it is stored, as it is read, and split; no key of a folder KEY=VALUE has
such a name.
"""
_LONG_LINE, _MANY_FIELDS = 2048, 1024
"""Bytes of a line, and fields of a longer one: DuckDB lists these for 2,048 lines at once."""
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_ISO_DAY = ("%Y-%m-%d",)
_ISO_TIME = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?Z?"
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
_CLOCKS = ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", " %H:%M:%S.%f", "T%H:%M:%S.%f")
TOO_MANY, TOO_FEW, DAMAGED = "too many", "too few", "damaged"
"""Columns of `LineRows.findings`, besides one for each column with a type."""


@dataclass(frozen=True, slots=True)
class LineRows:
    """Text files of one layout; `columns` are the names of their fields, in order."""

    files: tuple[LineFile, ...]
    format: FileFormat
    columns: tuple[str, ...]
    hive: bool = False

    def select(self, columns: Sequence[FileColumn], partitions: Sequence[str]) -> str:
        """Return a SELECT of these columns; NULL if the files lack one. `partitions` come from
        paths.
        """
        listed = []
        for column in columns:
            if column.name.lower() in map(str.lower, partitions):
                value = converted(name(column.name), column, self.format)
            elif column.name.lower() in map(str.lower, self.columns):
                value = converted(self._text(column.name, column), column, self.format)
            else:
                value = f"NULL::{column.type}"
            listed.append(f"{value} AS {name(column.name)}")
        return f"SELECT {', '.join(listed)} FROM {self._source(partitions)}"

    def findings(self, columns: Sequence[FileColumn]) -> str:
        """Return a SELECT of flags for each line: its defects, and the fields that do not
        convert.
        """
        flags = [
            f"len({_SPLIT}) > {len(self.columns)} AS {name(TOO_MANY)}",
            f"len({_SPLIT}) < {len(self.columns)} AS {name(TOO_FEW)}",
            f"contains({_LINE}, {text(NO_TEXT)}) AS {name(DAMAGED)}",
        ]
        for column in columns:
            flag = "false"
            if column.name.lower() in map(str.lower, self.columns):
                value = self._text(column.name, column)
                is_null = f"{converted(value, column, self.format)} IS NULL"
                flag = f"{is_null} AND ({value}) IS NOT NULL"
            flags.append(f"coalesce({flag}, false) AS {name('of ' + column.name)}")
        return f"SELECT {', '.join(flags)} FROM {self._source(())}"

    def _source(self, partitions: Sequence[str]) -> str:
        """Return an item of FROM with the fields of each line as a list."""
        f = self.format
        most = max(each.most_bytes for each in self.files)
        skipped = f.skip + f.header
        options = {
            "header": "false",
            "auto_detect": "false",
            "strict_mode": "false",
            "ignore_errors": "true",
            "parallel": "false",  # DuckDB 2.0 loses lines between the pieces of a file
            "escape": "''",
            "comment": "''",
            "skip": str(skipped),
            "max_line_size": str(most + 64),
            "buffer_size": str(max(_ROOM, 2 * most + 128)),
            "hive_partitioning": str(bool(partitions)).lower(),
        }
        if partitions:
            options["hive_types_autocast"] = "false"
        if f.multiline:
            return self._whole_fields(options)
        options |= {"columns": "{'=raw': 'VARCHAR'}", "delim": text(SEPARATOR), "quote": "''"}
        most = max(_MANY_FIELDS, 2 * len(self.columns))
        selected = ", ".join([f"{_cut_line(f, most)} AS {_LINE}", *map(name, partitions)])
        lines = f"SELECT {selected} FROM {self._reader(options)} WHERE {_RAW} IS NOT NULL"
        named = ", ".join([_LINE, f"{_fields(f)} AS {_SPLIT}", *map(name, partitions)])
        return f"(SELECT {named} FROM ({lines}))"

    def _whole_fields(self, options: dict[str, str]) -> str:
        """Return such an item if fields may hold line ends: then DuckDB splits the file."""
        f, fields = self.format, [f"={n}" for n in range(len(self.columns))]
        listed = ", ".join(f"'{field}': 'VARCHAR'" for field in fields)
        options |= {
            "columns": f"{{{listed}}}",
            "delim": text(f.delimiter),
            "quote": text(f.quote),
            "escape": text(f.quote),
            "null_padding": "true",
            "nullstr": f"[{_listed(f.null_words)}]",
            "allow_quoted_nulls": "false",
        }
        # Every column is read, even if a statement reads fewer: which lines are rows depends on
        # all.
        every = ", ".join(map(name, fields))
        read = f"len([{every}]) > 0"
        named = f"'' AS {_LINE}, [{every}] AS {_SPLIT}"
        return f"(SELECT *, {named} FROM {self._reader(options)} WHERE {read})"

    def _reader(self, options: dict[str, str]) -> str:
        paths = ", ".join(text(each.path) for each in self.files)
        said = ", ".join(f"{key} = {value}" for key, value in options.items())
        return f"read_csv([{paths}], {said})"

    def _text(self, column: str, declared: FileColumn) -> str:
        """Return the text of a field without its quotes; NULL if it is a word for NULL."""
        f = self.format
        place = [each.lower() for each in self.columns].index(column.lower()) + 1
        raw, q = f"{_SPLIT}[{place}]", text(f.quote)
        if f.multiline:
            return raw
        value = raw
        if f.quote:
            inner = f"substring({raw}, 2, length({raw}) - 2)"
            single = f"replace({inner}, {text(f.quote * 2)}, {q})"
            whole = f"replace({single}, {text(SEPARATOR)}, {text(f.delimiter)})"
            closed = f"length({raw}) > 1 AND starts_with({raw}, {q}) AND ends_with({raw}, {q})"
            value = f"CASE WHEN {closed} THEN {whole} ELSE {raw} END"
        if not f.null_words:
            return value
        trimmed = raw if declared.type == "VARCHAR" else f"trim({raw})"
        return f"CASE WHEN {trimmed} IN ({_listed(f.null_words)}) THEN NULL ELSE ({value}) END"


def _cut_line(f: FileFormat, most: int) -> str:
    """Return the part of a stored line that is read: all of it, unless it is long and has more
    fields than `most`.
    """
    delimiter = text(f.delimiter)
    few = f"WHEN {_count(_RAW, f.delimiter)} < {most} THEN {_RAW}"
    if f.quote:
        each = f"regexp_replace({_RAW} || {delimiter}, {_each_field(f)}, '.', 'g')"
        few += f" WHEN contains({_RAW}, {text(f.quote)}) AND strlen({each}) <= {most} THEN {_RAW}"
    cut = f"left({_RAW}, {_LONG_LINE}) || {text(NO_TEXT)}"
    return f"CASE WHEN strlen({_RAW}) <= {_LONG_LINE} THEN {_RAW} {few} ELSE {cut} END"


def _count(line: str, sign: str) -> str:
    """Return the number of characters `sign` in a line."""
    other = f"strlen(replace({line}, {text(sign)}, ''))"
    return f"(strlen({line}) - {other}) // {len(sign.encode())}"


def _each_field(f: FileFormat) -> str:
    """Return the pattern of a field, as its group, and the delimiter behind it."""
    q, d = re.escape(f.quote), re.escape(f.delimiter)
    return text(f"({q}(?:[^{q}]|{q}{q})*{q}|[^{d}]*){d}")


def _fields(f: FileFormat) -> str:
    """Return the fields of a line with their quotes; delimiters inside of quotes are
    `SEPARATOR`.

    A line with regular quotes is masked and split. Other lines, and long ones with many quotes, are
    split by a slower expression, for which a quote that is not closed is an ordinary character.
    """
    delimiter = text(f.delimiter)
    plain = f"string_split({_LINE}, {delimiter})"
    if not f.quote:
        return plain
    q, d = re.escape(f.quote), re.escape(f.delimiter)
    whole = f"{q}(?:[^{q}]|{q}{q})*{q}"
    bare = f"[^{q}{d}]*"
    regular = f"(?:{whole}|{bare})(?:{d}(?:{whole}|{bare}))*"
    few = f"(strlen({_LINE}) <= {_LONG_LINE} OR {_count(_LINE, f.quote)} < {_MANY_FIELDS})"
    masked = (
        f"array_to_string(list_transform(string_split({_LINE}, {text(f.quote)}), lambda p, i:"
        f" CASE WHEN i % 2 = 0 THEN replace(p, {delimiter}, {text(SEPARATOR)}) ELSE p END),"
        f" {text(f.quote)})"
    )
    return (
        f"CASE WHEN NOT contains({_LINE}, {text(f.quote)}) THEN {plain}"
        f" WHEN {few} AND regexp_full_match({_LINE}, {text(regular)})"
        f" THEN string_split({masked}, {delimiter})"
        f" ELSE regexp_extract_all({_LINE} || {delimiter}, {_each_field(f)}, 1) END"
    )


def converted(value: str, column: FileColumn, f: FileFormat) -> str:
    """Return an expression of a text as a value of a type; NULL if it is not one. It never
    fails.
    """
    kind = column.type.upper()
    if kind == "VARCHAR":
        return f"({value})"
    t = f"trim({value})"
    if kind == "BOOLEAN":
        low = f"lower({t})"
        return (
            f"CASE WHEN {low} IN ({_listed(_TRUE)}) THEN true"
            f" WHEN {low} IN ({_listed(_FALSE)}) THEN false END"
        )
    if kind == "DATE" or (column.forms and kind.startswith("TIMESTAMP")):
        return _day(t, column.forms or f.dates, kind)
    if kind == "TIMESTAMP":
        if f.dates == _ISO_DAY:
            cast = f"TRY_CAST({t} AS TIMESTAMP)"
            return f"CASE WHEN regexp_full_match({t}, {text(_ISO_TIME)}) THEN {cast} END"
        return _day(t, tuple(day + clock for day in f.dates for clock in _CLOCKS), kind)
    if kind == "TIME":
        return f"CASE WHEN regexp_full_match({t}, {text(_CLOCK)}) THEN TRY_CAST({t} AS TIME) END"
    if kind in ("UUID", "TIMESTAMP WITH TIME ZONE"):
        return f"CASE WHEN regexp_matches({t}, '[0-9a-fA-F]') THEN TRY_CAST({t} AS {kind}) END"
    return _number(t, kind, f)


def _day(t: str, forms: tuple[str, ...], kind: str) -> str:
    """Return the date by the first form that fits; words such as infinity are not dates."""
    parsed = f"try_strptime({t}, [{_listed(forms)}])"
    return f"CASE WHEN regexp_matches({t}, '[0-9]') THEN TRY_CAST({parsed} AS {kind}) END"


def _number(t: str, kind: str, f: FileFormat) -> str:
    """Return a number as it is written; NULL if it has more digits than its type."""
    point, digits, plain = re.escape(f.decimal), "[0-9]+", t
    if f.thousands:
        digits = f"(?:[0-9]{{1,3}}(?:{re.escape(f.thousands)}[0-9]{{3}})+|[0-9]+)"
        plain = f"replace({plain}, {text(f.thousands)}, '')"
    if f.decimal != ".":
        plain = f"replace({plain}, {text(f.decimal)}, '.')"
    if kind == "DOUBLE":
        fits = f"[+-]?(?:{digits}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    elif kind.startswith("DECIMAL"):
        scale = kind.rstrip(")").rpartition(",")[2].strip()
        fits = f"[+-]?(?:{digits}(?:{point}[0-9]{{0,{scale}}}0*)?|{point}[0-9]{{1,{scale}}}0*)"
        fits = f"[+-]?{digits}" if scale == "0" else fits
    else:
        fits = f"[+-]?{digits}"
    cast = f"TRY_CAST(ltrim({plain}, '+') AS {kind})"
    return f"CASE WHEN regexp_full_match({t}, {text(fits)}) THEN {cast} END"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(text, words))
