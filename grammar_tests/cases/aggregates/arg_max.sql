-- ARG_MAX(x, y): the listed x that a few people reach the highest level of y with.
-- catalog: shop

-- case: the segment of the oldest
SELECT ARG_MAX(country, age) AS c FROM customers WHERE customer_id > 0;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 363 l0=1 rows=1 greatest

-- case: by groups, of several rows of a person
SELECT status, ARG_MIN(HOUR(placed_at), quantity) AS h FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: peak of 24 of 504 l0=3 rows=1 least

-- case: filtered, of truth values, by what has many levels
SELECT MAX_BY(vip, CAST(income AS INTEGER)) FILTER (WHERE country = 'NO') AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 2 of 57144 l0=1 rows=1 greatest

-- case: under the pure accountant beside a count
SELECT COUNT(*) AS n, MIN_BY(segment, age) AS s FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: peak of 2 of 242 l0=1 rows=1 least

-- case: by a number that is not whole
SELECT ARG_MAX(country, income) AS c FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: by what has no bounds
SELECT ARG_MAX(status, note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:24

-- case: of values that nobody lists
SELECT ARG_MAX(note, quantity) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: of different rows
SELECT ARG_MAX(DISTINCT status, quantity) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8
