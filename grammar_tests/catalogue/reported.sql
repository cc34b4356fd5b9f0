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
