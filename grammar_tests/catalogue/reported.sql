-- What public reports of other servers name: statements of our own, in the forms that tools write.

-- ask
SELECT ('{' || relname || '}')::text[] FROM pg_class WHERE relname = 'pg_class'
;

-- ask
SELECT (('{' || nspname || ',x}')::text[])[2], ('{' || nspname || ',3,"a,b",NULL}')::text[] FROM pg_namespace WHERE nspname = 'pg_catalog'
;

-- ask
SELECT c.conname, u.a, u.b, u.i FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey, c.confkey) WITH ORDINALITY AS u(a, b, i) WHERE contype = 'f' ORDER BY 1, 4
;

-- ask
SELECT a, b FROM unnest(ARRAY[1, 2, 3], ARRAY['x', 'y']) AS u(a, b)
;

-- ask
SELECT jsonb_build_object('bb', 1, 'a', 'x', 'c', NULL)::text
;

-- ask
SELECT json_build_object('a', 1, 'b', 'x')::text, jsonb_build_array(1, 'a')::text, to_jsonb(1)::text
;

-- ask
SELECT row_to_json(n)::text FROM (SELECT nspname FROM pg_namespace WHERE nspname = 'pg_catalog') n
;

-- ask
-- differs: the number of a transaction
SELECT n.oid, n.xmin::text::bigint AS v, n.cmin, n.cmax, n.xmax, n.ctid FROM pg_catalog.pg_namespace n
;

-- ask
SELECT attname, xmin FROM pg_attribute LIMIT 1
;

-- ask
-- differs: constraints are no triggers here
SELECT oid, xmin FROM pg_trigger
;

-- ask
SELECT pg_size_pretty(0::bigint), pg_size_pretty(10239::bigint), pg_size_pretty(10240::bigint), pg_size_pretty(1048576::bigint), pg_size_pretty(10485247::bigint), pg_size_pretty(123456789012::bigint), pg_size_pretty(-5000::bigint), pg_size_pretty(99999999999999::bigint)
;

-- ask
SELECT quote_nullable('a''b'), quote_nullable(NULL), quote_literal('x')
;

-- ask
-- differs: the time of a start
SELECT EXTRACT(EPOCH FROM pg_postmaster_start_time() AT TIME ZONE 'UTC')
;

-- ask
-- differs: the number of a transaction
SELECT txid_current()
;

-- ask
SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(1, 2), pg_advisory_unlock(1), pg_advisory_lock(7)::text
;

-- ask
SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg\_c%' LIMIT (1 + 1)
;
-- ask
SELECT format('%I.%L, %L', 'a b', 'it''s', NULL)
;

-- ask
SELECT pg_collation_for('a'::text), pg_notification_queue_usage(), pg_last_wal_receive_lsn(), pg_last_xact_replay_timestamp()
;

-- ask
SELECT typname, typelem, typdelim FROM pg_type WHERE typinput = 'array_in(cstring,oid,integer)'::regprocedure AND typelem IN (16, 20, 25) ORDER BY typname
;

-- ask
SELECT json_object_agg(nspname, nspname = 'public' ORDER BY nspname)::text FROM pg_namespace WHERE nspname IN ('public', 'pg_catalog')
;

-- ask
SELECT pg_stat_get_last_vacuum_time(0), pg_stat_get_dead_tuples(0)
;

-- ask
SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public' AND tablename = 'orders'), NOT EXISTS (SELECT FROM pg_class WHERE relname = 'nosuch')
;

-- ask
SELECT acl.grantor::regrole::text, acl.grantee = current_user::regrole, acl.privilege_type, acl.is_grantable FROM pg_class c, aclexplode(c.relacl) acl WHERE c.relname = 'orders' ORDER BY 2, 3
;

-- ask
SELECT acl.grantee, acl.privilege_type FROM pg_class c CROSS JOIN LATERAL aclexplode(COALESCE(c.relacl, acldefault('r', c.relowner))) AS acl WHERE c.relname = 'pg_class' ORDER BY 1, 2
;

-- ask
SELECT relname, (aclexplode(relacl)).privilege_type FROM pg_class WHERE relname = 'pg_class' ORDER BY 2
;

-- ask
SELECT (aclexplode(nspacl)).grantee, (aclexplode(nspacl)).privilege_type FROM pg_namespace WHERE nspname = 'pg_catalog'
;

-- ask
-- differs: of those who log in, an analyst sees itself alone
SELECT grantee.rolname, g.privilege_type FROM pg_database d, LATERAL aclexplode(d.datacl) g LEFT JOIN pg_roles grantee ON grantee.oid = g.grantee WHERE datname = 'template1'
;

-- ask
SELECT acldefault('n', 10), acldefault('d', 10), acldefault('f', 10), acldefault('s', 10)
;

-- ask
SELECT jsonb_object_agg(relname, relkind)::text FROM (SELECT relname, relkind FROM pg_class WHERE relnamespace = 2200 AND relkind = 'r' ORDER BY 1) t
;

-- ask
SELECT json_object_agg(nspname, oid)::text FROM (SELECT nspname, oid FROM pg_namespace WHERE oid < 100 ORDER BY 1) t
;

-- ask
SELECT pg_typeof(1), pg_typeof('a'::text), pg_typeof(now()), pg_typeof(1.5), pg_typeof('x'), pg_typeof(true), pg_typeof(NULL::date)
;

-- ask
SELECT pg_typeof(relname), pg_typeof(oid), pg_typeof(relacl), pg_typeof(reltuples) FROM pg_class LIMIT 1
;

-- ask
SELECT name, default_version, installed_version FROM pg_available_extensions WHERE name = 'plpgsql'
;

-- ask
SELECT collation_name, pad_attribute, collation_schema FROM information_schema.collations WHERE collation_name IN ('C', 'default')
;

-- ask
SELECT relname, heap_blks_hit FROM pg_statio_user_tables ORDER BY 1
;

-- ask
SELECT sum(heap_blks_hit), sum(heap_blks_read) FROM pg_statio_user_tables
;

-- ask
SELECT relname, indexrelname, idx_scan FROM pg_stat_user_indexes ORDER BY 1, 2
;

-- ask
SELECT name, abbrev, is_dst FROM pg_timezone_names WHERE name = 'UTC'
;

-- ask
SELECT pg_relation_is_updatable('orders'::regclass, false), pg_jit_available() IS NOT NULL
;

-- ask
SELECT sum(oid::int8), sum(relnatts) FROM pg_class WHERE relname = 'pg_class'
;

-- ask
SELECT (information_schema._pg_expandarray(conkey)).n, (information_schema._pg_expandarray(conkey)).x FROM pg_constraint WHERE contype = 'p' AND conrelid = 'orders'::regclass
;

-- ask
SELECT translate(nspname, 'p_', 'q'), concat_ws('-', nspname, oid, NULL, 'x'), regexp_replace(nspname, '^pg_', ''), regexp_replace(nspname, 'a', 'b', 'g') FROM pg_namespace WHERE nspname = 'pg_catalog'
;

-- ask
SELECT indoption::text, indclass::text, indkey::text, array_to_string(indkey, ',') FROM pg_index WHERE indrelid = 'customers'::regclass
;

-- ask
SELECT relname, sum(relnatts) OVER (ORDER BY relname), sum(relnatts) OVER () FROM pg_class WHERE relnamespace = 2200 AND relkind = 'r' ORDER BY 1
;

-- ask
SELECT sum(relnatts), sum(oid::int8) > 5, sum(relnatts) + 1, sum(relnatts) / 2 FROM pg_class WHERE relname = 'pg_class'
;
