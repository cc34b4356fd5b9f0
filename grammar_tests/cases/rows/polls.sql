-- Where nothing limits what a unit adds, units are polled for it; until then bounds are the widest.
-- catalog: shop

-- case: a count by month has a norm over the months
SELECT EXTRACT(month FROM day) AS month, COUNT(*) AS n FROM logins GROUP BY month;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: a count by month under pure
SELECT EXTRACT(month FROM day) AS month, COUNT(*) AS n FROM logins GROUP BY month;
-- accountant: pure
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: a count by month under approximate
SELECT EXTRACT(month FROM day) AS month, COUNT(*) AS n FROM logins GROUP BY month;
-- accountant: approximate
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: a count by many days under approximate
SELECT EXTRACT(day FROM day) AS d, COUNT(*) AS n FROM logins GROUP BY d;
-- accountant: approximate
-- accept
-- keys: 31 public, l0 proved
-- release: scaled l0=31 linf=54975581.39

-- case: two measurements have two norms
SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n, SUM(EXTRACT(day FROM day)) AS s FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69
-- release: scaled l0=12 linf=549755813.9

-- case: a sum of either sign
SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) - 15) AS s FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=274877906.9

-- case: a sum of either sign under pure
SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) - 15) AS s FROM logins GROUP BY m;
-- accountant: pure
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=274877906.9

-- case: a sum that is never positive
SELECT SUM(-EXTRACT(day FROM day)) AS s FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=32505856

-- case: a sum of DOUBLE by month
SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) / 7.0e0) AS s FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=134217728

-- case: some of the rows
SELECT EXTRACT(month FROM day) AS m, COUNT(*) FILTER (WHERE day < DATE '2024-06-01') AS n FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: an average asks for its mean first
SELECT AVG(EXTRACT(day FROM day)) AS a FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=15728640

-- case: an average by month under pure
SELECT EXTRACT(month FROM day) AS m, AVG(EXTRACT(day FROM day)) AS a FROM logins GROUP BY m;
-- accountant: pure
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69
-- release: scaled l0=12 linf=274877906.9

-- case: a variance
SELECT VAR_POP(EXTRACT(day FROM day)) AS v FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=15728640
-- release: sum l0=1 linf=235929600

-- case: a covariance
SELECT COVAR_POP(EXTRACT(day FROM day), EXTRACT(month FROM day)) AS c FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=15728640
-- release: sum l0=1 linf=6291456
-- release: sum l0=1 linf=94371840

-- case: different values by month
SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT login_id + 0) AS n FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: distinct l0=12 linf=1048576

-- case: a median by month keeps some rows of each unit
SELECT EXTRACT(month FROM day) AS m, QUANTILE_DISC(EXTRACT(day FROM day), 0.5) AS q FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- choice: 2/4 of 31 l0=12 rows=1048576 hashed

-- case: the unit's own key needs no poll
SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT customer_id) AS n FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: units l0=12 linf=1

-- case: an analyst's own clip needs no poll
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, contribution_bounds_per_group => (0, 7)) AS n FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=7

-- case: extremes need no poll
SELECT MIN(EXTRACT(day FROM day)) AS least FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- choice: 0/2 of 31 l0=1 rows=1 least

-- case: two private tables
SELECT segment, COUNT(*) AS n, SUM(amount) AS s FROM customers JOIN orders USING (customer_id) JOIN logins USING (customer_id) GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=524288000

-- case: groups that are not public need no limit of their own
SELECT login_id % 5000 AS g, COUNT(*) FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: scaled l0=1024 linf=3518437209

-- case: nor do different values in groups that are not public
SELECT login_id % 5000 AS g, COUNT(DISTINCT day) FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=1.4142
-- release: distinct l0=1024 linf=1048576

-- case: rows that are compared with what is released first
SELECT COUNT(*) FROM logins WHERE EXTRACT(day FROM day) > (SELECT AVG(age) FROM customers);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: values where they are above what is released first
SELECT SUM(CASE WHEN EXTRACT(day FROM day) > a THEN EXTRACT(day FROM day) ELSE 0 END) AS s FROM logins CROSS JOIN (SELECT AVG(age) AS a FROM customers) AS c;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=32505856

-- case: other values where they are above what is released first
SELECT SUM(CASE WHEN EXTRACT(day FROM day) > a THEN EXTRACT(day FROM day) ELSE 1 END) AS s FROM logins CROSS JOIN (SELECT AVG(age) AS a FROM customers) AS c;
-- refuse: unbounded-contribution at 1:8

-- case: an average of rows above what is released first
SELECT AVG(EXTRACT(day FROM day)) AS a FROM logins WHERE EXTRACT(day FROM day) > (SELECT AVG(age) FROM customers);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=31457280

-- case: rows that meet several groups released first
SELECT COUNT(*) FROM logins JOIN (SELECT segment, AVG(age) AS a FROM customers GROUP BY segment) AS c ON EXTRACT(day FROM day) > a;
-- refuse: unbounded-contribution at 1:8

-- case: an average of what is summed without a limit
SELECT AVG(days) AS a FROM (SELECT customer_id, EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day)) AS days FROM logins GROUP BY customer_id, m) AS each;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=1.704243023e+13

-- case: an average of one number for each unit that nothing limits
SELECT AVG(n) AS a FROM (SELECT customer_id, COUNT(*) AS n FROM logins GROUP BY customer_id) AS each;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=524288

-- case: a sum of a number that nothing limits, of DOUBLE
SELECT SUM(d) AS s FROM (SELECT customer_id, SUM(EXTRACT(day FROM day) / 7.0e0) AS d FROM logins GROUP BY customer_id) AS each;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4643693.714

-- case: a standard deviation of one number for each unit that nothing limits
SELECT STDDEV(n) AS q FROM (SELECT customer_id, COUNT(*) AS n FROM logins GROUP BY customer_id) AS each;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=524288
-- release: sum l0=1 linf=2.748779069e+11

-- case: of the largest of an unlimited number nothing is found
SELECT MAX(n) AS q FROM (SELECT customer_id, COUNT(*) AS n FROM logins GROUP BY customer_id) AS each;
-- refuse: unbounded-input at 1:12

-- case: a sum over a count is measured from about their ratio
SELECT SUM(EXTRACT(day FROM day)) / COUNT(*) AS a FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=32505856

-- case: a sum over a count of values, which may be none
SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) - 15) / NULLIF(COUNT(day), 0) AS a FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69
-- release: scaled l0=12 linf=268435456

-- case: a sum over another sum
SELECT SUM(EXTRACT(month FROM day)) / SUM(EXTRACT(day FROM day)) AS a FROM logins;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=32505856
-- release: sum l0=1 linf=12582912

-- case: a share of the rows
SELECT EXTRACT(month FROM day) AS m, COUNT(*) FILTER (WHERE EXTRACT(day FROM day) < 9) * 100.0 / COUNT(*) AS p FROM logins GROUP BY m ORDER BY p DESC;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69
-- release: scaled l0=12 linf=16777216

-- case: a sum that is shown beside its ratio is measured plainly
SELECT SUM(EXTRACT(day FROM day)) AS s, SUM(EXTRACT(day FROM day)) / COUNT(*) AS a FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=32505856
-- release: rows l0=1 linf=1048576

-- case: a count that is shown beside the ratio is measured all the same
SELECT COUNT(*) AS n, SUM(EXTRACT(day FROM day)) / COUNT(*) AS a FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: sum l0=1 linf=32505856
