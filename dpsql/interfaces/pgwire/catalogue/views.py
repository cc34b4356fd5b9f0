"""PostgreSQL's views over its catalogue, in our own words over the shadow's tables.

Each names the columns that are more than NULL; the others and the order are those recorded. A view
without a row here is empty: it would tell of sessions, storage, replication or statistics.
"""

from __future__ import annotations

from dpsql.interfaces.pgwire.catalogue import recorded
from dpsql.interfaces.pgwire.catalogue.translation import oids

Key = tuple[str, str]

_SHOWN = "c.relnamespace = 2200 OR pg_open(c.relacl)"
"""Relations that an analyst may read: information_schema tells of no others."""

_RELATIONS = (
    "SELECT c.*, n.nspname, pg_database_name() AS db FROM cat.pg_class AS c"
    " JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace"
    f" WHERE c.relkind IN ('r', 'v') AND ({_SHOWN})"
)
_CATALOG: dict[str, str] = {
    "pg_roles": "SELECT * REPLACE ('********' AS rolpassword) FROM cat.pg_authid",
    "pg_user": (
        "SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb,"
        " rolsuper AS usesuper, rolreplication AS userepl, rolbypassrls AS usebypassrls,"
        " '********' AS passwd FROM cat.pg_authid WHERE rolcanlogin"
    ),
    "pg_group": (
        "SELECT rolname AS groname, oid AS grosysid, CAST([] AS BIGINT[]) AS grolist"
        " FROM cat.pg_authid WHERE NOT rolcanlogin"
    ),
    "pg_tables": (
        "SELECT n.nspname AS schemaname, c.relname AS tablename,"
        " pg_role_name(c.relowner) AS tableowner, t.spcname AS tablespace,"
        " c.relhasindex AS hasindexes, c.relhasrules AS hasrules,"
        " c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity"
        " FROM cat.pg_class AS c JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace"
        " LEFT JOIN cat.pg_tablespace AS t ON t.oid = c.reltablespace WHERE c.relkind = 'r'"
    ),
    "pg_views": (
        "SELECT n.nspname AS schemaname, c.relname AS viewname,"
        " pg_role_name(c.relowner) AS viewowner FROM cat.pg_class AS c"
        " JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind = 'v'"
    ),
    "pg_indexes": (
        "SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname,"
        " t.spcname AS tablespace, d.definition AS indexdef FROM cat.pg_index AS x"
        " JOIN cat.pg_class AS c ON c.oid = x.indrelid JOIN cat.pg_class AS i"
        " ON i.oid = x.indexrelid JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace"
        " LEFT JOIN cat.pg_tablespace AS t ON t.oid = i.reltablespace"
        " LEFT JOIN cat.definitions AS d ON d.kind = 'index' AND d.oid = i.oid"
    ),
    "pg_settings": (
        "SELECT * REPLACE (coalesce(element_at(getvariable('settings'), lower(name))[1], setting)"
        " AS setting) FROM cat.pg_settings_recorded"
    ),
    "pg_stat_user_tables": (
        "SELECT oid AS relid, 'public' AS schemaname, relname, 0 AS seq_scan, 0 AS seq_tup_read,"
        " 0 AS n_tup_ins, 0 AS n_tup_upd, 0 AS n_tup_del, 0 AS n_live_tup, 0 AS n_dead_tup,"
        " 0 AS vacuum_count, 0 AS analyze_count"
        " FROM cat.pg_class WHERE relnamespace = 2200 AND relkind = 'r'"
    ),
    "pg_stat_database": "SELECT oid AS datid, datname, 0 AS numbackends FROM cat.pg_database",
}

_TYPE_NAME = (
    "CASE WHEN t.typtype = 'd' THEN pg_format_type(t.typbasetype, NULL)"
    " WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'"
    " WHEN t.typnamespace = 11 THEN pg_format_type(t.oid, NULL) ELSE 'USER-DEFINED' END"
)
_BITS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64, oids.FLOAT4: 24, oids.FLOAT8: 53}
_TEXT_TYPES = f"({oids.TEXT}, {oids.VARCHAR}, {oids.BPCHAR}, {oids.NAME}, {oids.CHAR})"
_NUMERIC_MOD = f"base = {oids.NUMERIC} AND mod >= 4"
_PRECISION = (
    "CASE base "
    + " ".join(f"WHEN {oid} THEN {bits}" for oid, bits in _BITS.items())
    + f" WHEN {oids.NUMERIC} THEN CASE WHEN mod >= 4 THEN (mod - 4) >> 16 END END"
)
_RADIX = f"CASE WHEN base = {oids.NUMERIC} THEN 10 WHEN base IN {tuple(_BITS)} THEN 2 END"
_SCALE = (
    f"CASE WHEN base IN ({oids.INT2}, {oids.INT4}, {oids.INT8}) THEN 0"
    f" WHEN {_NUMERIC_MOD} THEN (mod - 4) & 65535 END"
)
_DATETIME = (
    f"CASE WHEN base = {oids.DATE} THEN 0 WHEN base IN ({oids.TIMESTAMP}, {oids.TIMESTAMPTZ},"
    f" 1083, 1266, {oids.INTERVAL}) THEN 6 END"
)
_LONGEST = f"CASE WHEN base IN ({oids.VARCHAR}, {oids.BPCHAR}) AND mod > 4 THEN mod - 4 END"
_OCTETS = (
    f"CASE WHEN base IN ({oids.TEXT}, {oids.VARCHAR}, {oids.BPCHAR}) THEN CASE WHEN mod > 4"
    f" AND base <> {oids.TEXT} THEN (mod - 4) * 4 ELSE 1073741824 END END"
)
_COLUMNS = (
    f"SELECT r.db, r.nspname, r.relname, r.relkind, a.*, {_TYPE_NAME} AS type_name, t.typname,"
    " CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END AS base,"
    " CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS mod,"
    " CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END AS base_name,"
    " t.typtype, tn.nspname AS type_schema, bn.nspname AS base_schema"
    f" FROM ({_RELATIONS}) AS r JOIN cat.pg_attribute AS a ON a.attrelid = r.oid"
    " JOIN cat.pg_type AS t ON t.oid = a.atttypid JOIN cat.pg_namespace AS tn"
    " ON tn.oid = t.typnamespace LEFT JOIN cat.pg_type AS b ON b.oid = t.typbasetype"
    " LEFT JOIN cat.pg_namespace AS bn ON bn.oid = b.typnamespace"
    " WHERE a.attnum > 0 AND NOT a.attisdropped"
)
_READERS = (
    "SELECT r.*, split_part(acl, '=', 1) AS holder, split_part(split_part(acl, '=', 2), '/', 1)"
    " AS letters, split_part(acl, '/', 2) AS giver FROM (SELECT *, unnest(relacl) AS acl"
    f" FROM ({_RELATIONS})) AS r"
)
"""Who holds what: an ACL item is `holder=letters/giver`, without a holder for everyone."""

_GRANTS = (
    "SELECT db AS table_catalog, nspname AS table_schema, relname AS table_name,"
    " giver AS grantor, CASE WHEN holder = '' THEN 'PUBLIC' ELSE trim(holder, '\"') END AS grantee,"
    " 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy, oid"
    f" FROM ({_READERS}) WHERE contains(letters, 'r')"
    " AND (holder = '' OR trim(holder, '\"') = pg_me())"
)
_INFORMATION: dict[str, str] = {
    "information_schema_catalog_name": "SELECT pg_database_name() AS catalog_name",
    "schemata": (
        "SELECT pg_database_name() AS catalog_name, nspname AS schema_name,"
        " pg_role_name(nspowner) AS schema_owner FROM cat.pg_namespace WHERE nspname <> 'pg_toast'"
    ),
    "key_column_usage": (
        "SELECT pg_database_name() AS constraint_catalog, n.nspname AS constraint_schema,"
        " k.conname AS constraint_name, pg_database_name() AS table_catalog,"
        " n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,"
        " k.place AS ordinal_position,"
        " CASE WHEN k.contype = 'f' THEN list_position(x.indkey, k.confkey[k.place]) END"
        " AS position_in_unique_constraint FROM (SELECT *, unnest(conkey) AS number,"
        " generate_subscripts(conkey, 1) AS place FROM cat.pg_constraint"
        " WHERE contype IN ('p', 'u', 'f')) AS k"
        f" JOIN ({_RELATIONS}) AS c ON c.oid = k.conrelid AND c.relkind = 'r'"
        " JOIN cat.pg_namespace AS n ON n.oid = k.connamespace"
        " JOIN cat.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.number"
        " LEFT JOIN cat.pg_index AS x ON x.indexrelid = k.conindid"
    ),
    "tables": (
        "SELECT db AS table_catalog, nspname AS table_schema, relname AS table_name,"
        " CASE relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type,"
        " CASE relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_insertable_into,"
        f" 'NO' AS is_typed FROM ({_RELATIONS})"
    ),
    "views": (
        "SELECT db AS table_catalog, nspname AS table_schema, relname AS table_name,"
        " 'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into,"
        " 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,"
        f" 'NO' AS is_trigger_insertable_into FROM ({_RELATIONS}) WHERE relkind = 'v'"
    ),
    "columns": (
        "SELECT db AS table_catalog, nspname AS table_schema, relname AS table_name,"
        " attname AS column_name, attnum AS ordinal_position,"
        " CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, type_name AS data_type,"
        f" {_LONGEST} AS character_maximum_length, {_OCTETS} AS character_octet_length,"
        f" {_PRECISION} AS numeric_precision, {_RADIX} AS numeric_precision_radix,"
        f" {_SCALE} AS numeric_scale, {_DATETIME} AS datetime_precision,"
        " CASE WHEN typtype = 'd' THEN db END AS domain_catalog,"
        " CASE WHEN typtype = 'd' THEN type_schema END AS domain_schema,"
        " CASE WHEN typtype = 'd' THEN typname END AS domain_name,"
        " CASE WHEN attcollation = 950 THEN db END AS collation_catalog,"
        " CASE WHEN attcollation = 950 THEN 'pg_catalog' END AS collation_schema,"
        " CASE WHEN attcollation = 950 THEN 'C' END AS collation_name,"
        " db AS udt_catalog, coalesce(base_schema, type_schema) AS udt_schema,"
        " base_name AS udt_name, attnum AS dtd_identifier, 'NO' AS is_self_referencing,"
        " 'NO' AS is_identity, 'NO' AS identity_cycle, 'NEVER' AS is_generated,"
        f" CASE relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_updatable FROM ({_COLUMNS})"
    ),
    "table_privileges": f"SELECT * FROM ({_GRANTS})",
    "role_table_grants": f"SELECT * FROM ({_GRANTS}) WHERE grantee <> 'PUBLIC'",
    "column_privileges": (
        f"SELECT g.*, a.attname AS column_name FROM ({_GRANTS}) AS g"
        " JOIN cat.pg_attribute AS a ON a.attrelid = g.oid WHERE a.attnum > 0"
    ),
    "enabled_roles": "SELECT pg_me() AS role_name",
    "character_sets": (
        "SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire,"
        " 'UTF8' AS form_of_use, pg_database_name() AS default_collate_catalog,"
        " 'pg_catalog' AS default_collate_schema, 'C' AS default_collate_name"
    ),
}


def _completed(key: Key, sql: str) -> str:
    """The view's rows with NULL for every column that its text leaves out."""
    named = ", ".join(f'NULL AS "{c.name}"' for c in recorded.relations()[key])
    return f"SELECT * FROM ({sql}) UNION ALL BY NAME SELECT {named} WHERE FALSE"


VIEWS: dict[Key, str] = {
    (schema, name): _completed((schema, name), sql)
    for schema, texts in (("pg_catalog", _CATALOG), ("information_schema", _INFORMATION))
    for name, sql in texts.items()
}
"""The text of each view; its columns are chosen from it by name."""
