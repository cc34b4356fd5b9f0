-- SUM: clip every row, total per unit, clip the total, add up, then noise.
-- catalog: shop

-- case: sum of a column with declared bounds
SELECT SUM(amount) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: sum of an integer column
SELECT SUM(quantity) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: sum of a double column
SELECT SUM(income) AS total FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200000

-- case: sum of a nullable double column
SELECT SUM(discount) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10

-- case: sum of an expression clips the expression, not the column
SELECT SUM(amount * quantity) AS revenue FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100000

-- case: sum of a difference may be negative
SELECT SUM(amount - 250) AS shifted FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2500

-- case: sum of a constant
SELECT SUM(1) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: sum of a conditional
SELECT SUM(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS paid FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: sum of a conditional without else
SELECT SUM(CASE WHEN status = 'paid' THEN amount END) AS paid FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: sum bounded by a filter
SELECT SUM(note_length) AS n FROM orders WHERE note_length BETWEEN 0 AND 100;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: sum bounded by comparisons
SELECT SUM(note_length) AS n FROM orders WHERE note_length >= 0 AND note_length < 100;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=990

-- case: sum bounded by LEAST and GREATEST
SELECT SUM(LEAST(GREATEST(note_length, 0), 50)) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=500

-- case: sum two links away
SELECT SUM(price * units) AS revenue FROM items;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=20000

-- case: a column without bounds is refused
SELECT SUM(note_length) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: half a bound is no bound
SELECT SUM(note_length) AS n FROM orders WHERE note_length < 100;
-- refuse: unbounded-input at 1:12

-- case: a bound under OR is no bound
SELECT SUM(note_length) AS n FROM orders WHERE note_length BETWEEN 0 AND 10 OR status = 'paid';
-- refuse: unbounded-input at 1:12

-- case: a division by what may be zero has no bound
SELECT SUM(amount / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: a division by a constant has one
SELECT SUM(amount / 4) AS quarter FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1250

-- case: sum of text
SELECT SUM(status) FROM orders;
-- refuse: type-mismatch at 1:8

-- case: sum of distinct values has no rule
SELECT SUM(DISTINCT amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: sum of a date
SELECT SUM(joined) FROM customers;
-- refuse: type-mismatch at 1:8

-- case: several sums in one release
SELECT SUM(amount) AS a, SUM(quantity) AS b, SUM(discount) AS c, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=200
-- release: sum l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: many decimals and large totals
SELECT SUM(amount * amount * amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1250000000

-- case: a sum of ones where a person has one row
SELECT SUM(1) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
