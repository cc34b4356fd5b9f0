-- What report builders ask of information_schema; the questions are our own.

-- ask
SELECT * FROM information_schema.schemata
;

-- ask
SELECT * FROM information_schema.tables WHERE table_schema = 'public'
;

-- ask
SELECT * FROM information_schema.columns WHERE table_schema = 'public'
;

-- ask
SELECT * FROM information_schema.columns WHERE table_schema = 'pg_catalog' AND table_name = 'pg_index'
;

-- ask
SELECT * FROM information_schema.columns WHERE table_name = 'columns'
;

-- ask
SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'public'
;

-- ask
-- differs: PostgreSQL tells constraints to owners alone
SELECT * FROM information_schema.table_constraints
;

-- ask
-- differs: PostgreSQL tells constraints to owners alone
SELECT * FROM information_schema.referential_constraints
;

-- ask
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'public'
;

-- ask
SELECT * FROM information_schema.column_privileges WHERE table_schema = 'public'
;

-- ask
SELECT * FROM information_schema.views WHERE table_schema = 'public'
;

-- ask
SELECT c.table_name, count(*) AS columns, bool_or(c.is_nullable = 'NO') AS keyed
FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
WHERE t.table_schema = 'public' GROUP BY c.table_name HAVING count(*) > 2 ORDER BY columns DESC, 1
;

-- ask
SELECT schemaname, tablename, tableowner, hasindexes, hastriggers FROM pg_tables WHERE schemaname = 'public'
;

-- ask
SELECT * FROM pg_indexes WHERE schemaname = 'public'
;

-- ask
-- differs: an analyst sees itself alone among those who may log in
SELECT rolname, rolsuper, rolcanlogin FROM pg_roles
;

-- ask
SELECT has_table_privilege('orders', 'SELECT'), has_table_privilege('orders', 'INSERT'), has_schema_privilege('public', 'USAGE'), has_schema_privilege('public', 'CREATE'), has_database_privilege(current_database(), 'CONNECT')
;

-- ask
SELECT 1 AS a, 'x' AS b, NULL, true, 1.5, ARRAY[1, 2], current_user, 'int4'::regtype, 'orders'::regclass::text, 20::oid::regtype::text
;

-- ask
SELECT
  d.classid::regclass, coalesce(c.relname, k.conname, t.typname), d.refclassid::regclass,
  coalesce(rc.relname, rk.conname, rt.typname, rn.nspname), d.refobjsubid, d.deptype
FROM pg_depend d
LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
LEFT JOIN pg_class rc ON d.refclassid = 'pg_class'::regclass AND rc.oid = d.refobjid
LEFT JOIN pg_constraint rk ON d.refclassid = 'pg_constraint'::regclass AND rk.oid = d.refobjid
LEFT JOIN pg_type rt ON d.refclassid = 'pg_type'::regclass AND rt.oid = d.refobjid
LEFT JOIN pg_namespace rn ON d.refclassid = 'pg_namespace'::regclass AND rn.oid = d.refobjid
WHERE d.objid >= 16384 AND d.classid IN (1247, 1259, 2606) AND d.refclassid IN (1247, 1259, 2606, 2615)
  AND coalesce(c.relkind, '') <> 't' AND coalesce(rc.relkind, '') <> 't' AND coalesce(c.relname, '') NOT LIKE 'pg_toast%'
ORDER BY 1, 2, 3, 4, 5
;

-- ask
SELECT
  c.relname, pg_index_has_property(c.oid, 'clusterable'), pg_index_has_property(c.oid, 'nonsense'),
  pg_index_column_has_property(c.oid, 1, 'orderable'), pg_index_column_has_property(c.oid, 1, 'desc'),
  pg_index_column_has_property(c.oid, 1, 'nulls_last'), pg_index_column_has_property(c.oid, 1, 'nulls_first'),
  pg_index_column_has_property(c.oid, 1, 'distance_orderable'), pg_index_column_has_property(c.oid, 1, 'search_nulls'),
  pg_indexam_has_property(c.relam, 'can_unique'), pg_indexam_has_property(c.relam, 'nothing')
FROM pg_class c WHERE c.relkind = 'i' AND c.relnamespace = 2200
ORDER BY 1
;

-- ask
SELECT row_to_json(t) FROM (
  SELECT relname, relkind, relnatts, relhasindex, NULL AS nothing, oid::regclass AS name, relacl IS NULL AS "no ""acl"
  FROM pg_class WHERE relnamespace = 2200 ORDER BY relname
) AS t
;

-- ask
SELECT json_agg(t ORDER BY t.attname), json_agg(t.attname ORDER BY t.attname), to_json(max(t.attnum))
FROM (SELECT attname, attnum FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0) AS t
;

-- ask
SELECT json_build_array(1, 'a"b', NULL, true), array_to_json(ARRAY['a', NULL]), to_json('x'::text), to_json(NULL::text)
;

-- ask
SELECT name, setting FROM pg_show_all_settings() WHERE name = 'bytea_output'
;
