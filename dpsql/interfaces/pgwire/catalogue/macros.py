"""What the functions of PostgreSQL's catalogue are in the shadow: macros over its tables."""

from __future__ import annotations

from dpsql.interfaces.pgwire.catalogue.objects import DATABASE

_NUMERIC, _VARCHAR, _BPCHAR = 1700, 1043, 1042
_REGTYPE = 2206

# What a macro is given may name columns: its own tables go by a name that no tool uses, `m_`.
_MACROS = {
    # Of the session: variables of the connection that asks.
    "pg_me()": "CAST(getvariable('analyst') AS VARCHAR)",
    "pg_my_number()": (
        "(SELECT CAST(m_.oid AS VARCHAR) FROM cat.pg_authid AS m_ WHERE m_.rolname = pg_me())"
    ),
    "pg_database_name()": f"'{DATABASE}'",
    "pg_search_path(implicit)": (
        "CASE WHEN implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END"
    ),
    "pg_setting(what)": "element_at(getvariable('settings'), lower(what))[1]",
    # Names and numbers.
    "pg_reg_text(k, o)": (
        "CASE WHEN o = 0 THEN '-' ELSE coalesce((SELECT min(m_.spelled) FROM cat.names AS m_"
        " WHERE m_.kind = k AND m_.oid = o AND m_.shown), CAST(o AS VARCHAR)) END"
    ),
    "pg_reg_texts(k, a)": (
        "(SELECT list(coalesce(n.spelled, CAST(u.e AS VARCHAR)) ORDER BY u.i) FROM"
        " (SELECT unnest(a) AS e, generate_subscripts(a, 1) AS i) AS u LEFT JOIN cat.names AS n"
        " ON n.kind = k AND n.oid = u.e AND n.shown)"
    ),
    "pg_reg_number(k, t)": (
        "(SELECT min(m_.oid) FROM cat.names AS m_ WHERE m_.kind = k"
        " AND m_.spelled IN (t, replace(t, '\"', '')))"
    ),
    "pg_format_type(o, m)": (
        "CASE WHEN o IS NULL THEN NULL"
        f" WHEN o = {_NUMERIC} AND m >= 4"
        " THEN 'numeric(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')'"
        f" WHEN o = {_VARCHAR} AND m >= 4 THEN 'character varying(' || (m - 4) || ')'"
        f" WHEN o = {_BPCHAR} AND m >= 4 THEN 'character(' || (m - 4) || ')'"
        f" WHEN o = {_BPCHAR} AND m < 0 THEN 'bpchar'"
        " WHEN m >= 0 AND o IN (1083, 1114) THEN if(o = 1083, 'time(', 'timestamp(') || m"
        " || ') without time zone'"
        " WHEN m >= 0 AND o IN (1184, 1266) THEN if(o = 1266, 'time(', 'timestamp(') || m"
        " || ') with time zone'"
        " WHEN o = 0 THEN '-' ELSE coalesce((SELECT min(m_.spelled) FROM cat.names AS m_"
        f" WHERE m_.kind = {_REGTYPE} AND m_.oid = o AND m_.shown), '???') END"
    ),
    "pg_role_name(o)": (
        "coalesce((SELECT m_.rolname FROM cat.pg_authid AS m_ WHERE m_.oid = o),"
        " 'unknown (OID=' || o || ')')"
    ),
    "pg_brace(which)": "CASE which WHEN 0 THEN '{' ELSE '}' END",
    "pg_quote_ident(t)": (
        "CASE WHEN regexp_full_match(t, '[a-z_][a-z0-9_$]*') AND t NOT IN (KEYWORDS) THEN t"
        " ELSE '\"' || replace(t, '\"', '\"\"') || '\"' END"
    ),
    "pg_parse_ident(t)": (
        'list_transform(regexp_extract_all(t, \'"[^"]+"|[^."]+\'), lambda p: CASE'
        " WHEN starts_with(p, '\"') THEN trim(p, '\"') ELSE lower(trim(p)) END)"
    ),
    # Definitions and comments.
    "pg_definition(k, o)": (
        "(SELECT any_value(m_.definition) FROM cat.definitions AS m_"
        " WHERE m_.kind = k AND m_.oid = o)"
    ),
    "pg_index_column(o, n)": (
        "CASE WHEN n = 0 THEN replace(replace(pg_definition('index', o), ' ON public.', ' ON '),"
        " ' ON pg_catalog.', ' ON ') ELSE (SELECT any_value("
        "pg_quote_ident(m_.attname)) FROM cat.pg_attribute AS m_"
        " WHERE m_.attrelid = o AND m_.attnum = n) END"
    ),
    "pg_comment(o, catalog, sub)": (
        "(SELECT any_value(m_.description) FROM cat.pg_description AS m_ WHERE m_.objoid = o"
        " AND m_.objsubid = sub AND coalesce(catalog, 'pg_class') = 'pg_class')"
    ),
    # Visibility and privileges.
    "pg_visible_class(o)": (
        "(SELECT any_value(m_.relnamespace IN (11, 2200)) FROM cat.pg_class AS m_ WHERE m_.oid = o)"
    ),
    "pg_visible_type(o)": (
        "(SELECT any_value(m_.typnamespace IN (11, 2200)) FROM cat.pg_type AS m_ WHERE m_.oid = o)"
    ),
    "pg_visible_proc(o)": (
        "(SELECT any_value(m_.pronamespace IN (11, 2200)) FROM cat.pg_proc AS m_ WHERE m_.oid = o)"
    ),
    "pg_is_user_table(o)": (
        "(SELECT any_value(m_.relkind = 'r' AND m_.relnamespace = 2200) FROM cat.pg_class AS m_"
        " WHERE m_.oid = o)"
    ),
    "pg_open(acl)": "regexp_matches(array_to_string(acl, ','), '(^|,)=[a-zA-Z]*r')",
    "pg_may_read(o, what)": (
        "(SELECT any_value(list_contains(list_transform(string_split(upper(what), ','),"
        " lambda w: trim(w)), 'SELECT') AND (m_.relnamespace = 2200"
        " OR pg_open(m_.relacl))) FROM cat.pg_class AS m_ WHERE m_.oid = o)"
    ),
    # Arrays.
    "pg_element(a, i)": "CASE WHEN i > 0 THEN a[i] END",
    "pg_pairs(a)": "list_transform(a, lambda e, i: {'x': e, 'n': CAST(i AS INTEGER)})",
    "pg_array_remove(a, v)": "list_filter(a, lambda e: e IS DISTINCT FROM v)",
    "pg_array_to_string(a, s, n)": (
        "array_to_string(list_transform(a, lambda e: coalesce(CAST(e AS VARCHAR), n)), s)"
    ),
    "pg_array_text(a)": (
        "'{' || array_to_string(list_transform(a, lambda e: CASE WHEN e IS NULL THEN 'NULL'"
        " WHEN e = '' OR upper(e) = 'NULL' OR regexp_matches(e, '[{},\"\\\\\\s]')"
        " THEN '\"' || replace(replace(e, '\\', '\\\\'), '\"', '\\\"') || '\"' ELSE e END), ',')"
        " || '}'"
    ),
}

_SERIES = (
    "CREATE MACRO pg_series(a, b) AS generate_series(a, b), (a, b, c) AS generate_series(a, b, c)"
)
MACROS = (*(f"CREATE MACRO {head} AS {body}" for head, body in _MACROS.items()), _SERIES)
"""The statements that make them, in an order in which each knows those that it uses."""
