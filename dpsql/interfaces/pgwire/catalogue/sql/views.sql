-- PostgreSQL's views over its catalogue, in our own words over the shadow's tables.
--
-- Each names the columns that are more than NULL; the others and the order are those recorded. A view that is not
-- here is empty: it would tell of sessions, storage, replication or statistics. Those of `cat` are the shadow's own.

-- Every analyst may read the policy's tables, and is told of its own grant alone.
CREATE VIEW cat.classes AS
SELECT * REPLACE (
  CASE WHEN relkind = 'r' AND pg_is_user_schema(relnamespace)
  THEN list_append(relacl, pg_quote_ident(pg_me()) || '=r/' || split_part(relacl[1], '/', 2)) ELSE relacl END AS relacl
)
FROM cat.pg_class;

-- Relations that an analyst may read: information_schema tells of no others.
CREATE VIEW cat.readable_relations AS
SELECT c.*, n.nspname, pg_database_name() AS db
FROM cat.classes AS c JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v') AND (pg_is_user_schema(c.relnamespace) OR pg_open(c.relacl));

CREATE VIEW cat.readable_columns AS
SELECT
  r.db, r.nspname, r.relname, r.relkind, a.*, t.typname, t.typtype,
  tn.nspname AS type_schema, bn.nspname AS base_schema,
  CASE
    WHEN t.typtype = 'd' THEN pg_format_type(t.typbasetype, NULL)
    WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
    WHEN t.typnamespace = 11 THEN pg_format_type(t.oid, NULL)
    ELSE 'USER-DEFINED'
  END AS type_name,
  CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END AS base,
  CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS mod,
  CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END AS base_name
FROM cat.readable_relations AS r
JOIN cat.pg_attribute AS a ON a.attrelid = r.oid
JOIN cat.pg_type AS t ON t.oid = a.atttypid
JOIN cat.pg_namespace AS tn ON tn.oid = t.typnamespace
LEFT JOIN cat.pg_type AS b ON b.oid = t.typbasetype
LEFT JOIN cat.pg_namespace AS bn ON bn.oid = b.typnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped;

-- Who may read what: an ACL item is `holder=letters/giver`, without a holder for everyone.
CREATE VIEW cat.read_grants AS
SELECT
  db AS table_catalog, nspname AS table_schema, relname AS table_name, giver AS grantor,
  CASE WHEN holder = '' THEN 'PUBLIC' ELSE trim(holder, '"') END AS grantee,
  'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy, oid
FROM (
  SELECT
    r.*, split_part(acl, '=', 1) AS holder, split_part(split_part(acl, '=', 2), '/', 1) AS letters,
    split_part(acl, '/', 2) AS giver
  FROM (SELECT *, unnest(relacl) AS acl FROM cat.readable_relations) AS r
)
WHERE contains(letters, 'r') AND (holder = '' OR trim(holder, '"') = pg_me());

-- Of those who may log in an analyst sees itself alone.
CREATE VIEW pg_catalog.pg_roles AS
SELECT * REPLACE ('********' AS rolpassword) FROM cat.pg_authid WHERE rolname = pg_me() OR NOT rolcanlogin;

CREATE VIEW pg_catalog.pg_user AS
SELECT
  rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
  rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd
FROM cat.pg_authid WHERE rolname = pg_me();

CREATE VIEW pg_catalog.pg_group AS
SELECT rolname AS groname, oid AS grosysid, CAST([] AS BIGINT[]) AS grolist
FROM cat.pg_authid WHERE NOT rolcanlogin;

CREATE VIEW pg_catalog.pg_tables AS
SELECT
  n.nspname AS schemaname, c.relname AS tablename, pg_role_name(c.relowner) AS tableowner,
  t.spcname AS tablespace, c.relhasindex AS hasindexes, c.relhasrules AS hasrules,
  c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
FROM cat.pg_class AS c
JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN cat.pg_tablespace AS t ON t.oid = c.reltablespace
WHERE c.relkind = 'r';

CREATE VIEW pg_catalog.pg_views AS
SELECT
  n.nspname AS schemaname, c.relname AS viewname, pg_role_name(c.relowner) AS viewowner, d.definition
FROM cat.pg_class AS c JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN cat.definitions AS d ON d.kind = 'view' AND d.oid = c.oid
WHERE c.relkind = 'v';

CREATE VIEW pg_catalog.pg_indexes AS
SELECT
  n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname, t.spcname AS tablespace,
  d.definition AS indexdef
FROM cat.pg_index AS x
JOIN cat.pg_class AS c ON c.oid = x.indrelid
JOIN cat.pg_class AS i ON i.oid = x.indexrelid
JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN cat.pg_tablespace AS t ON t.oid = i.reltablespace
LEFT JOIN cat.definitions AS d ON d.kind = 'index' AND d.oid = i.oid;

CREATE VIEW pg_catalog.pg_settings AS
SELECT * REPLACE (coalesce(element_at(getvariable('settings'), lower(name))[1], setting) AS setting)
FROM cat.pg_settings_recorded;

CREATE VIEW pg_catalog.pg_stat_user_tables AS
SELECT
  c.oid AS relid, n.nspname AS schemaname, relname, 0 AS seq_scan, 0 AS seq_tup_read, 0 AS n_tup_ins,
  0 AS n_tup_upd, 0 AS n_tup_del, 0 AS n_live_tup, 0 AS n_dead_tup, 0 AS vacuum_count,
  0 AS analyze_count
FROM cat.pg_class AS c JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
WHERE pg_is_user_schema(c.relnamespace) AND relkind = 'r';

CREATE VIEW pg_catalog.pg_stat_user_indexes AS
SELECT
  x.indrelid AS relid, x.indexrelid, n.nspname AS schemaname, c.relname, i.relname AS indexrelname,
  0 AS idx_scan, 0 AS idx_tup_read, 0 AS idx_tup_fetch
FROM cat.pg_index AS x
JOIN cat.pg_class AS c ON c.oid = x.indrelid
JOIN cat.pg_class AS i ON i.oid = x.indexrelid
JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
WHERE pg_is_user_schema(c.relnamespace);

CREATE VIEW pg_catalog.pg_statio_user_tables AS
SELECT
  c.oid AS relid, n.nspname AS schemaname, relname, 0 AS heap_blks_read, 0 AS heap_blks_hit
FROM cat.pg_class AS c JOIN cat.pg_namespace AS n ON n.oid = c.relnamespace
WHERE pg_is_user_schema(c.relnamespace) AND relkind = 'r';

CREATE VIEW pg_catalog.pg_available_extensions AS
SELECT extname AS name, extversion AS default_version, extversion AS installed_version
FROM cat.pg_extension;

CREATE VIEW pg_catalog.pg_timezone_names AS
SELECT 'UTC' AS name, 'UTC' AS abbrev, FALSE AS is_dst;

CREATE VIEW information_schema.collations AS
SELECT
  pg_database_name() AS collation_catalog, n.nspname AS collation_schema, c.collname AS collation_name,
  'NO PAD' AS pad_attribute
FROM cat.pg_collation AS c JOIN cat.pg_namespace AS n ON n.oid = c.collnamespace;

CREATE VIEW pg_catalog.pg_stat_database AS
SELECT oid AS datid, datname, 0 AS numbackends FROM cat.pg_database;

CREATE VIEW information_schema.information_schema_catalog_name AS
SELECT pg_database_name() AS catalog_name;

CREATE VIEW information_schema.schemata AS
SELECT
  pg_database_name() AS catalog_name, nspname AS schema_name, pg_role_name(nspowner) AS schema_owner
FROM cat.pg_namespace WHERE nspname <> 'pg_toast';

CREATE VIEW information_schema.key_column_usage AS
SELECT
  pg_database_name() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
  pg_database_name() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  a.attname AS column_name, k.place AS ordinal_position,
  CASE WHEN k.contype = 'f' THEN list_position(x.indkey, k.confkey[k.place]) END AS position_in_unique_constraint
FROM (
  SELECT *, unnest(conkey) AS number, generate_subscripts(conkey, 1) AS place
  FROM cat.pg_constraint WHERE contype IN ('p', 'u', 'f')
) AS k
JOIN cat.readable_relations AS c ON c.oid = k.conrelid AND c.relkind = 'r'
JOIN cat.pg_namespace AS n ON n.oid = k.connamespace
JOIN cat.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.number
LEFT JOIN cat.pg_index AS x ON x.indexrelid = k.conindid;

CREATE VIEW information_schema.tables AS
SELECT
  db AS table_catalog, nspname AS table_schema, relname AS table_name,
  CASE WHEN nspname = 'pg_temp_1' THEN 'LOCAL TEMPORARY' WHEN relkind = 'r' THEN 'BASE TABLE' ELSE 'VIEW' END
    AS table_type,
  CASE relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO' AS is_typed
FROM cat.readable_relations;

CREATE VIEW information_schema.views AS
SELECT
  db AS table_catalog, nspname AS table_schema, relname AS table_name, 'NONE' AS check_option,
  'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable,
  'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
FROM cat.readable_relations WHERE relkind = 'v';

CREATE VIEW information_schema.columns AS
SELECT
  db AS table_catalog, nspname AS table_schema, relname AS table_name, attname AS column_name,
  attnum AS ordinal_position, CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, type_name AS data_type,
  CASE WHEN base IN (1043, 1042) AND mod > 4 THEN mod - 4 END AS character_maximum_length,
  CASE WHEN base IN (25, 1043, 1042)
    THEN CASE WHEN mod > 4 AND base <> 25 THEN (mod - 4) * 4 ELSE 1073741824 END
  END AS character_octet_length,
  CASE base
    WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
    WHEN 1700 THEN CASE WHEN mod >= 4 THEN (mod - 4) >> 16 END
  END AS numeric_precision,
  CASE WHEN base = 1700 THEN 10 WHEN base IN (21, 23, 20, 700, 701) THEN 2 END AS numeric_precision_radix,
  CASE WHEN base IN (21, 23, 20) THEN 0 WHEN base = 1700 AND mod >= 4 THEN (mod - 4) & 65535 END AS numeric_scale,
  CASE WHEN base = 1082 THEN 0 WHEN base IN (1114, 1184, 1083, 1266, 1186) THEN 6 END AS datetime_precision,
  CASE WHEN typtype = 'd' THEN db END AS domain_catalog,
  CASE WHEN typtype = 'd' THEN type_schema END AS domain_schema,
  CASE WHEN typtype = 'd' THEN typname END AS domain_name,
  CASE WHEN attcollation = 950 THEN db END AS collation_catalog,
  CASE WHEN attcollation = 950 THEN 'pg_catalog' END AS collation_schema,
  CASE WHEN attcollation = 950 THEN 'C' END AS collation_name,
  db AS udt_catalog, coalesce(base_schema, type_schema) AS udt_schema, base_name AS udt_name,
  attnum AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity, 'NO' AS identity_cycle,
  'NEVER' AS is_generated, CASE relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_updatable
FROM cat.readable_columns;

CREATE VIEW information_schema.table_privileges AS
SELECT * FROM cat.read_grants;

CREATE VIEW information_schema.role_table_grants AS
SELECT * FROM cat.read_grants WHERE grantee <> 'PUBLIC';

CREATE VIEW information_schema.column_privileges AS
SELECT g.*, a.attname AS column_name
FROM cat.read_grants AS g JOIN cat.pg_attribute AS a ON a.attrelid = g.oid WHERE a.attnum > 0;

CREATE VIEW information_schema.enabled_roles AS
SELECT pg_me() AS role_name;

CREATE VIEW information_schema.character_sets AS
SELECT
  'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
  pg_database_name() AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
  'C' AS default_collate_name;

-- PostgreSQL tells these to owners alone: here whoever reads a table may know its keys.
CREATE VIEW cat.told_constraints AS
SELECT c.*, r.relname, r.nspname, r.db, n.nspname AS constraint_schema
FROM cat.pg_constraint AS c
JOIN cat.readable_relations AS r ON r.oid = c.conrelid
JOIN cat.pg_namespace AS n ON n.oid = c.connamespace
WHERE pg_is_user_schema(r.relnamespace);

CREATE VIEW information_schema.table_constraints AS
SELECT
  db AS constraint_catalog, constraint_schema, conname AS constraint_name,
  db AS table_catalog, nspname AS table_schema, relname AS table_name,
  CASE contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'f' THEN 'FOREIGN KEY' ELSE 'UNIQUE' END AS constraint_type,
  'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced,
  CASE contype WHEN 'u' THEN 'YES' END AS nulls_distinct
FROM cat.told_constraints
UNION ALL
SELECT
  r.db, r.nspname, r.relnamespace || '_' || r.oid || '_' || a.attnum || '_not_null',
  r.db, r.nspname, r.relname, 'CHECK', 'NO', 'NO', 'YES', NULL
FROM cat.readable_relations AS r JOIN cat.pg_attribute AS a ON a.attrelid = r.oid
WHERE a.attnotnull AND a.attnum > 0 AND r.relkind = 'r' AND pg_is_user_schema(r.relnamespace);

CREATE VIEW information_schema.referential_constraints AS
SELECT
  c.db AS constraint_catalog, c.constraint_schema, c.conname AS constraint_name,
  CASE WHEN k.oid IS NOT NULL THEN c.db END AS unique_constraint_catalog,
  k.constraint_schema AS unique_constraint_schema, k.conname AS unique_constraint_name,
  'NONE' AS match_option, 'NO ACTION' AS update_rule, 'NO ACTION' AS delete_rule
FROM cat.told_constraints AS c
LEFT JOIN cat.told_constraints AS k ON k.conindid = c.conindid AND k.contype IN ('p', 'u')
WHERE c.contype = 'f';

CREATE VIEW information_schema.constraint_column_usage AS
SELECT DISTINCT
  r.db AS table_catalog, r.nspname AS table_schema, r.relname AS table_name, a.attname AS column_name,
  c.db AS constraint_catalog, c.constraint_schema, c.conname AS constraint_name
FROM (
  SELECT *, if(contype = 'f', confrelid, conrelid) AS used, unnest(if(contype = 'f', confkey, conkey)) AS number
  FROM cat.told_constraints
) AS c
JOIN cat.readable_relations AS r ON r.oid = c.used
JOIN cat.pg_attribute AS a ON a.attrelid = c.used AND a.attnum = c.number;
