-- Private keys by the moments of one row of each unit: one vector counts the units too.
-- catalog: shop

-- case: an average that may be missing
SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: an average of every row
SELECT city, AVG(income) AS mean FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002

-- case: a variance has three sums
SELECT city, VAR_POP(income) AS v, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: a sum beside a count
SELECT city, SUM(age) AS total, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: decimals, and a filter that may be unknown
SELECT city, AVG(age + 0.25::DECIMAL(5, 2)) FILTER (WHERE age < 60) AS mean, COUNT(*) AS n
FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: two averages, of which one counts
SELECT city, AVG(age) AS a, AVG(income) AS i FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: a variance and an average
SELECT city, STDDEV(age) AS a, AVG(income) AS i FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 4 sums, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=100000

-- case: the count of units in a condition
SELECT city, AVG(income) AS mean FROM customers GROUP BY city HAVING COUNT(DISTINCT customer_id) > 10;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002

-- case: a count alone needs no vector
SELECT city, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: under zCDP a count of its own does no worse
SELECT city, COUNT(*) AS n, AVG(income) AS mean FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000

-- case: units with several rows are counted by themselves
SELECT device, COUNT(*) AS n, AVG(duration) AS mean FROM events GROUP BY device;
-- accountant: approximate
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
-- release: sum l0=2 linf=9000

-- case: without δ there are no private keys
SELECT city, AVG(income) AS mean FROM customers GROUP BY city;
-- accountant: pure
-- refuse: private-keys-need-delta at 1:1

-- case: an average without bounds
SELECT city, AVG(note_length) AS mean FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY city;
-- accountant: approximate
-- refuse: unbounded-input at 1:18

-- case: moments of one value are measured one by one
SELECT STDDEV(age) AS s, AVG(age) AS mean FROM customers WHERE age = 30;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0
-- release: sum l0=1 linf=0
