-- Private keys of which nobody limits how many a unit has: all that it adds is scaled to a norm.
-- catalog: shop

-- case: keys and how many units have each
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432

-- case: keys alone need no poll
SELECT DISTINCT login_id % 5000 AS g FROM logins;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142

-- case: rows and a sum beside the keys
SELECT login_id % 5000 AS g, COUNT(*) AS n, SUM(EXTRACT(day FROM day)) AS s FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3518437209
-- release: scaled l0=1024 linf=7.036874418e+10

-- case: a sum of either sign
SELECT login_id % 5000 AS g, SUM(EXTRACT(day FROM day) - 15) AS s FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3.518437209e+10

-- case: an average asks for its mean first
SELECT login_id % 5000 AS g, AVG(EXTRACT(day FROM day)) AS a FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3518437209
-- release: scaled l0=1024 linf=3.518437209e+10

-- case: some of the units and rows
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) FILTER (WHERE day < DATE '2024-06-01') AS n, COUNT(*) FILTER (WHERE day < DATE '2024-06-01') AS r FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3355.4432
-- release: scaled l0=1024 linf=3518437209

-- case: the first keys by their units
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n FROM logins GROUP BY g ORDER BY n DESC, g LIMIT 3;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432

-- case: the first keys by their rows
SELECT login_id % 5000 AS g, COUNT(*) AS n FROM logins GROUP BY g ORDER BY n DESC, g LIMIT 3;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3518437209

-- case: under approximate
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n, COUNT(*) AS r FROM logins GROUP BY g;
-- accountant: approximate
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432
-- release: scaled l0=1024 linf=3518437209

-- case: Laplace noise has an L1 norm
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'laplace') login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n, COUNT(*) AS r FROM logins GROUP BY g;
-- accountant: approximate
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432
-- release: scaled l0=1024 linf=3518437209

-- case: under pure no key can be shown
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n FROM logins GROUP BY g;
-- accountant: pure
-- refuse: private-keys-need-delta at 1:1

-- case: rows that the text limits are no more groups
SELECT g, COUNT(*) AS n FROM (SELECT login_id % 5000 AS g, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day) AS r FROM logins) WHERE r <= 30 GROUP BY g;
-- accept
-- keys: private, l0 proved
-- release: scaled l0=30 linf=1.4142
-- release: scaled l0=30 linf=30.0075

-- case: one row of a unit in each group
SELECT g, COUNT(*) AS n FROM (SELECT customer_id, login_id % 5000 AS g FROM logins GROUP BY customer_id, g) GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432

-- case: units whose rows wait for what is released first
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) AS n FROM logins WHERE EXTRACT(day FROM day) > (SELECT AVG(age) FROM customers) GROUP BY g;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432

-- case: rows that wait for what is released first are polled without it
SELECT login_id % 5000 AS g, COUNT(*) AS n FROM logins WHERE EXTRACT(day FROM day) > (SELECT AVG(age) FROM customers) GROUP BY g;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3518437209

-- case: different values count in all keys together
SELECT login_id % 5000 AS g, COUNT(DISTINCT day) AS n FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: distinct l0=1024 linf=1048576

-- case: so do different values beside sums
SELECT login_id % 5000 AS g, COUNT(DISTINCT day) AS n, SUM(EXTRACT(day FROM day)) AS s FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: distinct l0=1024 linf=1048576
-- release: scaled l0=1024 linf=7.036874418e+10

-- case: different values of the first groups
SELECT login_id % 5000 AS g, COUNT(DISTINCT day) AS n FROM logins GROUP BY g ORDER BY n DESC LIMIT 3;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: distinct l0=1024 linf=1048576

-- case: a sum of different values has no such bound
SELECT login_id % 5000 AS g, SUM(DISTINCT EXTRACT(day FROM day)) AS n FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: nor has a mean of them
SELECT login_id % 5000 AS g, AVG(DISTINCT EXTRACT(day FROM day)) AS n FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: a median beside different values
SELECT login_id % 5000 AS g, COUNT(DISTINCT day) AS n, MEDIAN(EXTRACT(day FROM day)) AS m FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: no norm bounds what a choice is swayed by
SELECT login_id % 5000 AS g, MODE(EXTRACT(day FROM day)) AS m FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: a declared limit is kept as it is
SELECT device, COUNT(DISTINCT customer_id) AS n FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
