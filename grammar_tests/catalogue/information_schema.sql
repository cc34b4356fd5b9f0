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
SELECT * FROM information_schema.table_constraints
;

-- ask
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
SELECT rolname, rolsuper, rolcanlogin FROM pg_roles
;

-- ask
SELECT has_table_privilege('orders', 'SELECT'), has_table_privilege('orders', 'INSERT'), has_schema_privilege('public', 'USAGE'), has_schema_privilege('public', 'CREATE'), has_database_privilege(current_database(), 'CONNECT')
;

-- ask
SELECT 1 AS a, 'x' AS b, NULL, true, 1.5, ARRAY[1, 2], current_user, 'int4'::regtype, 'orders'::regclass::text, 20::oid::regtype::text
;
