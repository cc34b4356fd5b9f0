-- Operators as each spelling has them: powers, absolute values, roots, patterns, XOR.
-- catalog: shop

-- case: a power
SELECT SUM(quantity ^ 2) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4000

-- case: a power by two stars, which binds tighter than a product
SELECT SUM(3 * quantity ** 2 + 1) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=12010

-- case: powers from the left
SELECT COUNT(*) AS n FROM orders WHERE quantity ^ 2 ^ 2 > 100;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a power of a whole quotient
SELECT COUNT(*) AS n FROM orders WHERE (quantity // 2) ^ 2 > 4;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a sign before a power belongs to the base
SELECT SUM(-quantity ^ 2) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4000

-- case: a power that nothing bounds
SELECT SUM(note_length ^ 2) AS s FROM orders;
-- refuse: unbounded-input at 1:12

-- case: a power in PostgreSQL
SELECT SUM((quantity % 7) ^ 2) AS s FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=360

-- case: two stars are no operator there
SELECT SUM(quantity ** 2) AS s FROM orders;
-- dialect: postgres
-- refuse: syntax-error at 1:24

-- case: an absolute value
SELECT SUM(@(quantity - 10)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: an absolute value takes what binds tighter
SELECT SUM(@ quantity - 10) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: an absolute value of an absolute value, compared
SELECT COUNT(*) AS n FROM orders WHERE @ (@(quantity - 10) - 5) < 3 AND @ -quantity > 2;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an absolute value of a cast and a product
SELECT SUM(@ quantity::DOUBLE * (discount - 1)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: an absolute value in PostgreSQL
SELECT SUM(@(quantity - 10)) AS s FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: nothing behind the sign
SELECT SUM(@) AS s FROM orders;
-- refuse: unsupported-syntax at 1:12

-- case: the sign between two values
SELECT SUM(quantity @ 2) AS s FROM orders;
-- refuse: unsupported-syntax at 1:21

-- case: the sign before a CASE that stands in no parentheses
SELECT SUM(@ CASE WHEN quantity > 3 THEN 1 END) AS s FROM orders;
-- refuse: unsupported-syntax at 1:12

-- case: square and cube roots in PostgreSQL
SELECT SUM(|/ quantity) AS s, SUM(||/ quantity * 8) AS c FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=44.72135961
-- release: sum l0=1 linf=54.28835236

-- case: a root that only PostgreSQL has
SELECT SUM(|/ quantity) AS s FROM orders;
-- refuse: syntax-error at 1:23

-- case: exclusive or in PostgreSQL
SELECT SUM(quantity # 3) AS s FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=310

-- case: exclusive or of numbers that are not whole
SELECT SUM(discount # 3) AS s FROM orders;
-- dialect: postgres
-- refuse: type-mismatch at 1:12

-- case: a pattern anywhere in a text
SELECT COUNT(*) AS n FROM orders WHERE note ~ 'o.d';
-- duckdb: 2
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: no such pattern
SELECT COUNT(*) AS n FROM orders WHERE status !~ 'p.*d';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a pattern in either case
SELECT COUNT(*) AS n FROM orders WHERE status ~* 'PAI' OR status !~* 'RE';
-- duckdb: 2
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a pattern of a number
SELECT COUNT(*) AS n FROM orders WHERE quantity ~ '1';
-- refuse: type-mismatch at 1:40
