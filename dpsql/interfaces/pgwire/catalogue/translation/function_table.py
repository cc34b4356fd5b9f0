"""The functions that may be asked of the catalogue, a row each; a missing row is a refusal.

Where PostgreSQL would compute from stored expressions, storage or statistics, of which a shadow
has none, the row is a constant. Names beginning with `pg_` that PostgreSQL does not have are macros
of the shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsql.interfaces.pgwire.catalogue.translation.oids import (
    ARRAYS,
    BOOL,
    INT4,
    INT8,
    JSON,
    NAME,
    NUMERIC,
    OID,
    REGCLASS,
    REGNAMESPACE,
    REGPROC,
    REGTYPE,
    TEXT,
    TIMESTAMPTZ,
)

NAMES, TEXTS = ARRAYS[NAME], ARRAYS[TEXT]
ANY, VOID = 0, 2278
ENCODINGS = tuple(
    """SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3
    LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251
    WIN1252 ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257
    KOI8U SJIS BIG5 GBK UHC GB18030 JOHAB SHIFT_JIS_2004""".split()
)
"""PostgreSQL's encodings; each one's number is its place."""

_Add = Callable[[str, int | None, tuple[int, ...], str], None]


@dataclass(frozen=True, slots=True)
class PgFunction:
    """What a function returns (None: as its first argument), takes, and is in DuckDB."""

    oid: int | None
    arguments: tuple[int, ...]
    sql: str


def _rows() -> dict[tuple[str, int], PgFunction]:
    table: dict[tuple[str, int], PgFunction] = {}

    def add(names: str, oid: int | None, arguments: tuple[int, ...], sql: str) -> None:
        for name in names.split():
            table[name, len(arguments)] = PgFunction(oid, arguments, sql)

    _definitions(add)
    _session(add)
    _privileges(add)
    _numbers(add)
    _texts(add)
    _arrays(add)
    _storage(add)
    return table


def _definitions(add: _Add) -> None:
    """Of objects: their types, definitions, comments and visibility."""
    add("format_type", TEXT, (OID, INT4), "pg_format_type({0}, {1})")
    add("pg_get_expr", TEXT, (TEXT, OID), "CAST(NULL AS VARCHAR)")
    add("pg_get_expr", TEXT, (TEXT, OID, BOOL), "CAST(NULL AS VARCHAR)")
    for rest in ((), (BOOL,)):
        add("pg_get_constraintdef", TEXT, (OID, *rest), "pg_definition('constraint', {0})")
        add("pg_get_viewdef", TEXT, (REGCLASS, *rest), "CAST(NULL AS VARCHAR)")
        add("pg_get_triggerdef pg_get_ruledef", TEXT, (OID, *rest), "CAST(NULL AS VARCHAR)")
    add("pg_get_indexdef", TEXT, (OID,), "pg_definition('index', {0})")
    add("pg_get_indexdef", TEXT, (OID, INT4, BOOL), "pg_index_column({0}, {1})")
    add("pg_get_functiondef pg_get_function_sqlbody", TEXT, (OID,), "CAST(NULL AS VARCHAR)")
    add("pg_get_function_result", TEXT, (OID,), "pg_definition('result', {0})")
    add(
        "pg_get_function_arguments pg_get_function_identity_arguments",
        TEXT,
        (OID,),
        "pg_definition('arguments', {0})",
    )
    nothing = "pg_get_statisticsobjdef_columns pg_get_statisticsobjdef pg_get_partkeydef"
    add(f"{nothing} pg_get_partition_constraintdef", TEXT, (OID,), "CAST(NULL AS VARCHAR)")
    add("pg_get_serial_sequence", TEXT, (TEXT, TEXT), "CAST(NULL AS VARCHAR)")
    add("pg_get_function_arg_default", TEXT, (OID, INT4), "CAST(NULL AS VARCHAR)")
    add("pg_get_userbyid", NAME, (OID,), "pg_role_name({0})")
    add("obj_description shobj_description", TEXT, (OID, TEXT), "pg_comment({0}, {1}, 0)")
    add("obj_description", TEXT, (OID,), "pg_comment({0}, NULL, 0)")
    add("col_description", TEXT, (OID, INT4), "pg_comment({0}, 'pg_class', {1})")
    add("pg_table_is_visible", BOOL, (OID,), "pg_visible_class({0})")
    add("pg_type_is_visible", BOOL, (OID,), "pg_visible_type({0})")
    add("pg_function_is_visible", BOOL, (OID,), "pg_visible_proc({0})")
    kinds = "collation operator opclass opfamily conversion ts_config ts_dict ts_parser ts_template"
    add(" ".join(f"pg_{k}_is_visible" for k in kinds.split()), BOOL, (OID,), "({0} IS NOT NULL)")
    add("pg_statistics_obj_is_visible", BOOL, (OID,), "({0} IS NOT NULL)")
    add("to_regclass", REGCLASS, (TEXT,), f"pg_reg_number({REGCLASS}, {{0}})")
    add("to_regtype", REGTYPE, (TEXT,), f"pg_reg_number({REGTYPE}, {{0}})")
    add("to_regproc", REGPROC, (TEXT,), f"pg_reg_number({REGPROC}, {{0}})")
    add("to_regnamespace", REGNAMESPACE, (TEXT,), f"pg_reg_number({REGNAMESPACE}, {{0}})")
    add("pg_relation_is_publishable", BOOL, (REGCLASS,), "pg_is_user_table({0})")


def _session(add: _Add) -> None:
    """Of the server and the session."""
    add("current_database", NAME, (), "pg_database_name()")
    add("current_schema", NAME, (), "'public'")
    add("current_user session_user", NAME, (), "pg_me()")
    add("current_schemas", NAMES, (BOOL,), "pg_search_path({0})")
    add("version", TEXT, (), "pg_setting('version')")
    add("current_setting", TEXT, (TEXT,), "pg_setting({0})")
    add("current_setting", TEXT, (TEXT, BOOL), "pg_setting({0})")
    add("set_config", TEXT, (TEXT, TEXT, BOOL), "{1}")
    names = "['" + "', '".join(ENCODINGS) + "']"
    known = f"{{0}} BETWEEN 0 AND {len(ENCODINGS) - 1}"
    add(
        "pg_encoding_to_char",
        NAME,
        (INT4,),
        f"CASE WHEN {known} THEN {names}[{{0}} + 1] ELSE '' END",
    )
    place = f"coalesce(list_position({names}, upper({{0}})), 0) - 1"
    add("pg_char_to_encoding", INT4, (NAME,), f"CAST({place} AS INTEGER)")
    add("getdatabaseencoding pg_client_encoding", NAME, (), "'UTF8'")
    add("pg_backend_pid inet_server_port inet_client_port", INT4, (), "CAST(NULL AS INTEGER)")
    add("inet_server_addr inet_client_addr", TEXT, (), "CAST(NULL AS VARCHAR)")
    add("pg_advisory_unlock_all", VOID, (), "''")
    add("pg_is_in_recovery", BOOL, (), "FALSE")
    add("pg_my_temp_schema", OID, (), "CAST(0 AS BIGINT)")
    add("pg_is_other_temp_schema", BOOL, (OID,), "FALSE")
    add("pg_postmaster_start_time", TIMESTAMPTZ, (), "CAST(NULL AS TIMESTAMPTZ)")


def _privileges(add: _Add) -> None:
    """Of the analyst: to read what is shown, and nothing else."""
    for who in ((), (ANY,)):
        at, word = f"{{{len(who)}}}", f"{{{len(who) + 1}}}"
        table = f"pg_may_read({at}, {word})"
        add("has_table_privilege", BOOL, (*who, REGCLASS, TEXT), table)
        add("has_any_column_privilege has_sequence_privilege", BOOL, (*who, REGCLASS, TEXT), table)
        column = table.replace(word, f"{{{len(who) + 2}}}")
        add("has_column_privilege", BOOL, (*who, REGCLASS, ANY, TEXT), column)
        use = f"(upper({word}) = 'USAGE')"
        add("has_schema_privilege", BOOL, (*who, ANY, TEXT), use)
        add("has_type_privilege has_language_privilege", BOOL, (*who, ANY, TEXT), use)
        add("has_function_privilege", BOOL, (*who, ANY, TEXT), f"(upper({word}) = 'EXECUTE')")
        database = f"(upper({word}) IN ('CONNECT', 'TEMP', 'TEMPORARY'))"
        add("has_database_privilege", BOOL, (*who, ANY, TEXT), database)
        add("has_tablespace_privilege", BOOL, (*who, ANY, TEXT), "FALSE")
        add("has_server_privilege", BOOL, (*who, ANY, TEXT), "FALSE")
    add("pg_has_role", BOOL, (ANY, TEXT), "(CAST({0} AS VARCHAR) IN (pg_me(), pg_my_number()))")
    add("pg_has_role", BOOL, (ANY, ANY, TEXT), "({0} = {1})")


def _numbers(add: _Add) -> None:
    add("round", NUMERIC, (NUMERIC,), "round({0})")
    add("round", NUMERIC, (NUMERIC, INT4), "round({0}, {1})")


def _texts(add: _Add) -> None:
    add("quote_ident", TEXT, (TEXT,), "pg_quote_ident({0})")
    add("quote_literal", TEXT, (TEXT,), "('''' || replace({0}, '''', '''''') || '''')")
    for name in ("lower", "upper", "ltrim", "rtrim", "reverse"):
        add(name, TEXT, (TEXT,), f"{name}({{0}})")
    add("btrim", TEXT, (TEXT,), "trim({0})")
    for name in ("ltrim", "rtrim", "left", "right"):
        kind = INT4 if name in ("left", "right") else TEXT
        add(name, TEXT, (TEXT, kind), f"{name}({{0}}, {{1}})")
    add("btrim", TEXT, (TEXT, TEXT), "trim({0}, {1})")
    add("length char_length character_length", INT4, (TEXT,), "CAST(length({0}) AS INTEGER)")
    add("octet_length", INT4, (TEXT,), "CAST(strlen({0}) AS INTEGER)")
    add("strpos", INT4, (TEXT, TEXT), "CAST(instr({0}, {1}) AS INTEGER)")
    add("starts_with", BOOL, (TEXT, TEXT), "starts_with({0}, {1})")
    # Of texts as long as names are: nested, it would fill any memory.
    add("replace", TEXT, (TEXT, TEXT, TEXT), "left(replace({0}, {1}, left({2}, 64)), 8192)")
    add("split_part", TEXT, (TEXT, TEXT, INT4), "split_part({0}, {1}, {2})")
    add("substr substring", TEXT, (TEXT, INT4), "substring({0}, {1})")
    add("substr substring", TEXT, (TEXT, INT4, INT4), "substring({0}, {1}, {2})")
    add("concat", TEXT, (ANY, ANY), "concat({0}, {1})")
    add("concat", TEXT, (ANY, ANY, ANY), "concat({0}, {1}, {2})")
    add("concat", TEXT, (ANY, ANY, ANY, ANY), "concat({0}, {1}, {2}, {3})")
    for pairs in range(1, 11):
        listed = " || ', ' || ".join(
            f"'\"' || {{{2 * i}}} || '\" : ' || coalesce(CAST(to_json({{{2 * i + 1}}}) AS VARCHAR),"
            " 'null')"
            for i in range(pairs)
        )
        add(
            "json_build_object",
            JSON,
            (TEXT, ANY) * pairs,
            f"(pg_brace(0) || {listed} || pg_brace(1))",
        )
    add("abs", None, (INT4,), "abs({0})")


def _arrays(add: _Add) -> None:
    add("array_to_string", TEXT, (TEXTS, TEXT), "array_to_string({0}, {1})")
    add("array_to_string", TEXT, (TEXTS, TEXT, TEXT), "pg_array_to_string({0}, {1}, {2})")
    add("string_to_array", TEXTS, (TEXT, TEXT), "string_split({0}, {1})")
    add("parse_ident", TEXTS, (TEXT,), "pg_parse_ident({0})")
    add("array_length", INT4, (TEXTS, INT4), "nullif(len({0}), 0)::INTEGER")
    add("cardinality", INT4, (TEXTS,), "len({0})::INTEGER")
    add("array_lower", INT4, (TEXTS, INT4), "CASE WHEN len({0}) > 0 THEN {base} END")
    add(
        "array_upper",
        INT4,
        (TEXTS, INT4),
        "CASE WHEN len({0}) > 0 THEN CAST(len({0}) + {base} - 1 AS INTEGER) END",
    )
    add("array_ndims", INT4, (TEXTS,), "CASE WHEN len({0}) > 0 THEN 1 END")
    add("array_position", INT4, (TEXTS, ANY), "nullif(list_position({0}, {1}), 0)::INTEGER")
    add("array_append", None, (TEXTS, ANY), "list_append({0}, {1})")
    add("array_remove", None, (TEXTS, ANY), "pg_array_remove({0}, {1})")
    add("array_cat", None, (TEXTS, TEXTS), "list_concat({0}, {1})")


def _storage(add: _Add) -> None:
    """Of sizes and counters: constants, as nothing is stored here."""
    sizes = "pg_table_size pg_total_relation_size pg_relation_size pg_indexes_size"
    add(sizes, INT8, (REGCLASS,), "CAST(0 AS BIGINT)")
    add("pg_relation_size", INT8, (REGCLASS, TEXT), "CAST(0 AS BIGINT)")
    add("pg_database_size pg_tablespace_size", INT8, (ANY,), "CAST(0 AS BIGINT)")
    add("pg_size_pretty", TEXT, (INT8,), "({0} || ' bytes')")
    add("pg_relation_filepath", TEXT, (REGCLASS,), "CAST(NULL AS VARCHAR)")
    add("pg_tablespace_location", TEXT, (OID,), "''")
    add("pg_stat_get_numscans pg_stat_get_live_tuples", INT8, (OID,), "CAST(0 AS BIGINT)")
    add("age", INT4, (ANY,), "CAST(0 AS INTEGER)")
    add("round", NUMERIC, (NUMERIC,), "round({0})")


FUNCTIONS = _rows()
"""Functions by name and number of arguments."""
