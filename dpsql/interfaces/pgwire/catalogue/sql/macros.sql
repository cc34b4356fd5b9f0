-- What the functions of PostgreSQL's catalogue are in the shadow, in an order in which each knows those that it uses.
-- What a macro is given may name columns: its own tables go by a name that no tool uses, `m_`.

-- Of the session: variables of the connection that asks.
CREATE MACRO pg_me() AS CAST(getvariable('analyst') AS VARCHAR);
CREATE MACRO pg_my_number() AS (
  SELECT CAST(m_.oid AS VARCHAR) FROM cat.pg_authid AS m_ WHERE m_.rolname = pg_me()
);
CREATE MACRO pg_database_name() AS '{DATABASE}';
CREATE MACRO pg_setting(what) AS element_at(getvariable('settings'), lower(what))[1];
CREATE MACRO pg_schemas_wished() AS list_transform(
  regexp_extract_all(pg_setting('search_path'), '"(?:[^"]|"")+"|[^\s",][^",]*'),
  lambda p: CASE WHEN starts_with(p, '"') THEN replace(p[2:-2], '""', '"') ELSE lower(trim(p)) END
);
CREATE MACRO pg_search_path(implicit) AS list_concat(
  CASE WHEN implicit THEN ['pg_catalog'] ELSE [] END,
  list_filter(pg_schemas_wished(), lambda p: p IN ({SCHEMAS}))
);

-- PostgreSQL's encodings; each one's number is its place, from 0.
CREATE MACRO pg_encodings() AS [
  'SQL_ASCII', 'EUC_JP', 'EUC_CN', 'EUC_KR', 'EUC_TW', 'EUC_JIS_2004', 'UTF8', 'MULE_INTERNAL', 'LATIN1', 'LATIN2',
  'LATIN3', 'LATIN4', 'LATIN5', 'LATIN6', 'LATIN7', 'LATIN8', 'LATIN9', 'LATIN10', 'WIN1256', 'WIN1258', 'WIN866',
  'WIN874', 'KOI8R', 'WIN1251', 'WIN1252', 'ISO_8859_5', 'ISO_8859_6', 'ISO_8859_7', 'ISO_8859_8', 'WIN1250',
  'WIN1253', 'WIN1254', 'WIN1255', 'WIN1257', 'KOI8U', 'SJIS', 'BIG5', 'GBK', 'UHC', 'GB18030', 'JOHAB',
  'SHIFT_JIS_2004'
];

-- Names and numbers.
CREATE MACRO pg_quote_ident(t) AS
  CASE WHEN regexp_full_match(t, '[a-z_][a-z0-9_$]*') AND t NOT IN ({KEYWORDS}) THEN t
  ELSE '"' || replace(t, '"', '""') || '"' END;
CREATE MACRO pg_reg_text(k, o) AS
  CASE WHEN o = 0 THEN '-' WHEN k = 4096 AND CAST(o AS VARCHAR) = pg_my_number() THEN pg_quote_ident(pg_me())
  ELSE coalesce(
    (SELECT min(m_.spelled) FROM cat.names AS m_ WHERE m_.kind = k AND m_.oid = o AND m_.shown), CAST(o AS VARCHAR)
  ) END;
CREATE MACRO pg_reg_texts(k, a) AS (
  SELECT list(coalesce(n.spelled, CAST(u.e AS VARCHAR)) ORDER BY u.i)
  FROM (SELECT unnest(a) AS e, generate_subscripts(a, 1) AS i) AS u
  LEFT JOIN cat.names AS n ON n.kind = k AND n.oid = u.e AND n.shown
);
CREATE MACRO pg_reg_number(k, t) AS coalesce(
  (SELECT min(m_.oid) FROM cat.names AS m_ WHERE m_.kind = k AND m_.spelled IN (t, replace(t, '"', ''))),
  CASE WHEN k = 4096 AND t IN (pg_me(), pg_quote_ident(pg_me())) THEN CAST(pg_my_number() AS BIGINT) END
);
CREATE MACRO pg_format_type(o, m) AS CASE
  WHEN o IS NULL THEN NULL
  WHEN o = 1700 AND m >= 4 THEN 'numeric(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')'
  WHEN o = 1043 AND m >= 4 THEN 'character varying(' || (m - 4) || ')'
  WHEN o = 1042 AND m >= 4 THEN 'character(' || (m - 4) || ')'
  WHEN o = 1042 AND m < 0 THEN 'bpchar'
  WHEN m >= 0 AND o IN (1083, 1114) THEN if(o = 1083, 'time(', 'timestamp(') || m || ') without time zone'
  WHEN m >= 0 AND o IN (1184, 1266) THEN if(o = 1266, 'time(', 'timestamp(') || m || ') with time zone'
  WHEN o = 0 THEN '-'
  ELSE coalesce(
    (SELECT min(m_.spelled) FROM cat.names AS m_ WHERE m_.kind = 2206 AND m_.oid = o AND m_.shown), '???'
  )
END;
CREATE MACRO pg_role_name(o) AS coalesce(
  (SELECT m_.rolname FROM cat.pg_authid AS m_ WHERE m_.oid = o AND (o < 16384 OR m_.rolname = pg_me())),
  'unknown (OID=' || o || ')'
);
CREATE MACRO pg_parse_ident(t) AS list_transform(
  regexp_extract_all(t, '"[^"]+"|[^."]+'),
  lambda p: CASE WHEN starts_with(p, '"') THEN trim(p, '"') ELSE lower(trim(p)) END
);

-- Definitions and comments.
CREATE MACRO pg_definition(k, o) AS (
  SELECT any_value(m_.definition) FROM cat.definitions AS m_ WHERE m_.kind = k AND m_.oid = o
);
CREATE MACRO pg_index_column(o, n) AS
  CASE WHEN n = 0 THEN replace(replace(pg_definition('index', o), ' ON public.', ' ON '), ' ON pg_catalog.', ' ON ')
  ELSE (
    SELECT any_value(pg_quote_ident(m_.attname)) FROM cat.pg_attribute AS m_ WHERE m_.attrelid = o AND m_.attnum = n
  ) END;
CREATE MACRO pg_property(kept, lacking, what) AS
  CASE WHEN list_contains(kept, lower(what)) THEN TRUE WHEN list_contains(lacking, lower(what)) THEN FALSE END;
CREATE MACRO pg_comment(o, catalog, sub) AS (
  SELECT any_value(m_.description) FROM cat.pg_description AS m_
  WHERE m_.objoid = o AND m_.objsubid = sub AND coalesce(catalog, 'pg_class') = 'pg_class'
);

-- Visibility and privileges.
CREATE MACRO pg_is_user_schema(o) AS o = 2200 OR o >= 16384;
CREATE MACRO pg_in_path(o) AS o IN (11, 16000000) OR coalesce(list_contains(
  pg_search_path(TRUE), (SELECT any_value(n_.nspname) FROM cat.pg_namespace AS n_ WHERE n_.oid = o)
), FALSE);
CREATE MACRO pg_visible_class(o) AS (
  SELECT any_value(pg_in_path(m_.relnamespace)) FROM cat.pg_class AS m_ WHERE m_.oid = o
);
CREATE MACRO pg_visible_type(o) AS (
  SELECT any_value(pg_in_path(m_.typnamespace)) FROM cat.pg_type AS m_ WHERE m_.oid = o
);
CREATE MACRO pg_visible_proc(o) AS (
  SELECT any_value(pg_in_path(m_.pronamespace)) FROM cat.pg_proc AS m_ WHERE m_.oid = o
);
CREATE MACRO pg_is_user_table(o) AS (
  SELECT any_value(m_.relkind = 'r' AND pg_is_user_schema(m_.relnamespace)) FROM cat.pg_class AS m_ WHERE m_.oid = o
);
CREATE MACRO pg_open(acl) AS regexp_matches(array_to_string(acl, ','), '(^|,)=[a-zA-Z]*r');
CREATE MACRO pg_may_read(o, what) AS (
  SELECT any_value(
    list_contains(list_transform(string_split(upper(what), ','), lambda w: trim(w)), 'SELECT')
    AND (pg_is_user_schema(m_.relnamespace) OR pg_open(m_.relacl))
  ) FROM cat.pg_class AS m_ WHERE m_.oid = o
);

-- Grants: an item is `holder=letters/giver`, with `*` after a letter that may be passed on.
CREATE MACRO pg_role_numbers() AS (SELECT map(list(m_.rolname), list(m_.oid)) FROM cat.pg_authid AS m_);
CREATE MACRO pg_grants(acl) AS flatten(list_transform(
  list_zip(acl, list_resize([pg_role_numbers()], len(acl), pg_role_numbers())),
  lambda r: list_transform(
    regexp_extract_all(split_part(split_part(r[1], '=', 2), '/', 1), '[a-zA-Z][*]?'),
    lambda p: {
      'grantor': r[2][trim(split_part(r[1], '/', 2), '"')],
      'grantee': CASE WHEN starts_with(r[1], '=') THEN 0 ELSE r[2][trim(split_part(r[1], '=', 1), '"')] END,
      'privilege_type': CASE p[1]
        WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
        WHEN 'D' THEN 'TRUNCATE' WHEN 'x' THEN 'REFERENCES' WHEN 't' THEN 'TRIGGER' WHEN 'X' THEN 'EXECUTE'
        WHEN 'U' THEN 'USAGE' WHEN 'C' THEN 'CREATE' WHEN 'c' THEN 'CONNECT' WHEN 'T' THEN 'TEMPORARY' END,
      'is_grantable': ends_with(p, '*')
    }
  )
));
CREATE MACRO pg_default_grants(kind, holder) AS list_concat(
  CASE kind WHEN 'd' THEN ['=Tc/' || holder] WHEN 'f' THEN ['=X/' || holder]
    WHEN 'T' THEN ['=U/' || holder] WHEN 'l' THEN ['=U/' || holder] ELSE [] END,
  [holder || '=' || CASE kind WHEN 'r' THEN 'arwdDxt' WHEN 's' THEN 'rwU' WHEN 'd' THEN 'CTc' WHEN 'n' THEN 'UC'
    WHEN 'f' THEN 'X' WHEN 't' THEN 'C' ELSE 'U' END || '/' || holder]
);

-- Arrays, and braces, which a template cannot contain.
CREATE MACRO pg_element(a, i) AS CASE WHEN i > 0 THEN a[i] END;
CREATE MACRO pg_pairs(a) AS list_transform(a, lambda e, i: {'x': e, 'n': CAST(i AS INTEGER)});
CREATE MACRO pg_array_remove(a, v) AS list_filter(a, lambda e: e IS DISTINCT FROM v);
CREATE MACRO pg_array_to_string(a, s, n) AS
  array_to_string(list_transform(a, lambda e: coalesce(CAST(e AS VARCHAR), n)), s);
CREATE MACRO pg_array_text(a) AS '{' || array_to_string(list_transform(a, lambda e: CASE
  WHEN e IS NULL THEN 'NULL'
  WHEN e = '' OR upper(e) = 'NULL' OR regexp_matches(e, '[{},"\\\s]')
  THEN '"' || replace(replace(e, '\', '\\'), '"', '\"') || '"' ELSE e
END), ',') || '}';
CREATE MACRO pg_series(a, b) AS generate_series(a, b), (a, b, c) AS generate_series(a, b, c);
CREATE MACRO pg_array_of(t) AS CASE WHEN t IS NOT NULL THEN list_transform(
  regexp_extract_all(t[2:-2], '"(?:[^"\\]|\\.)*"|[^,]+'),
  lambda e: CASE WHEN starts_with(e, '"') THEN regexp_replace(e[2:-2], '\\(.)', '\1', 'g')
    WHEN upper(trim(e)) <> 'NULL' THEN trim(e) END
) END;

-- Sizes in words, as PostgreSQL rounds them: the next unit begins at 10,240 of the last.
CREATE MACRO pg_size_text(n) AS CASE
  WHEN abs(n) < 10240 THEN n || ' bytes'
  WHEN abs(n) < 10485248 THEN CAST(round(n / 1024.0) AS BIGINT) || ' kB'
  WHEN abs(n) < 10736893952 THEN CAST(round(n / 1048576.0) AS BIGINT) || ' MB'
  WHEN abs(n) < 10994579406848 THEN CAST(round(n / 1073741824.0) AS BIGINT) || ' GB'
  ELSE CAST(round(n / 1099511627776.0) AS BIGINT) || ' TB'
END;
