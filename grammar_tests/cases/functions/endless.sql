-- Infinite dates and moments: constants before and after all others, which the engine reads.
-- catalog: shop

-- case: an open range of days
SELECT COUNT(*) AS n FROM logins WHERE day BETWEEN '-infinity'::DATE AND 'infinity'::DATE;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: strings beside days
SELECT COUNT(*) AS n FROM logins WHERE day > '-inf' AND day < 'Infinity';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: no end is after all ends
SELECT COUNT(*) AS n FROM orders WHERE COALESCE(CASE WHEN quantity > 5 THEN placed_at END, 'infinity') > TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: no end is after all ends, in PostgreSQL
SELECT COUNT(*) AS n FROM orders WHERE COALESCE(CASE WHEN quantity > 5 THEN placed_at END, 'infinity'::timestamp) > TIMESTAMP '2024-06-01';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an instant without an end
SELECT COUNT(*) AS n FROM orders WHERE placed_at AT TIME ZONE 'UTC' < TIMESTAMPTZ 'infinity';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: no infinite day is the last of the calendar
SELECT COUNT(*) AS n FROM logins WHERE 'infinity'::DATE > DATE '9999-12-31' AND '-infinity'::DATE < DATE '0001-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: a word that is no moment
SELECT COUNT(*) AS n FROM logins WHERE day < 'infinite'::DATE;
-- refuse: type-mismatch at 1:46

-- case: an infinite day is not before the end of all days
SELECT COUNT(*) AS n FROM logins WHERE day < 'infinity';
-- rows: customers (customer_id): (1), (2)
-- rows: logins (login_id, customer_id, day): (1, 1, '2024-03-01'), (2, 1, 'infinity'), (3, 2, '-infinity')
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- integers: () 2

-- case: times without an end are tested as numbers are
SELECT COUNT(*) AS n FROM orders WHERE isfinite(placed_at) AND NOT isinf(CAST(placed_at AS DATE));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
