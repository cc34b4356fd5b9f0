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
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 65535 l0=1 rows=1 greatest

-- case: by a decimal, of several rows of a person
SELECT ARG_MIN(status, amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 50001 l0=1 rows=1 least

-- case: by a date
SELECT segment, MAX_BY(country, joined) AS c FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- choice: peak of 3 of 6576 l0=1 rows=1 greatest

-- case: by a time
SELECT ARG_MAX(status, placed_at) AS s, ARGMIN(quantity, placed_at) AS q FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 65535 l0=1 rows=1 greatest
-- choice: peak of 21 of 65520 l0=1 rows=1 least

-- case: NULL is a value where it is asked for
SELECT ARG_MAX_NULL(age, joined) AS a, ARG_MAX(age, joined) AS b, ARG_MIN_NULL(segment, joined) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 122 of 53558 l0=1 rows=1 greatest
-- choice: peak of 121 of 53119 l0=1 rows=1 greatest
-- choice: peak of 2 of 4384 l0=1 rows=1 least

-- case: by a text
SELECT ARG_MAX(status, note) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: NULL among values that nobody lists
SELECT ARG_MAX_NULL(note, quantity) AS s FROM orders;
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
