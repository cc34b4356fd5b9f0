-- Contribution limits: proved where they can be, enforced where declared, refused otherwise.
-- catalog: shop

-- case: rows of a unit without a declared limit
SELECT COUNT(*) FROM logins;
-- refuse: unbounded-contribution at 1:8

-- case: a sum without a declared limit
SELECT SUM(EXTRACT(day FROM day)) FROM logins;
-- refuse: unbounded-contribution at 1:8

-- case: units need no limit
SELECT COUNT(DISTINCT customer_id) AS n FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: groups of a unit without a declared limit
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: few public keys are a proof
SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT customer_id) FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: units l0=12 linf=1

-- case: keys the unit determines are a proof
SELECT c.city, COUNT(DISTINCT l.customer_id) FROM logins l JOIN customers c ON l.customer_id = c.customer_id GROUP BY c.city;
-- accept
-- keys: private, l0 proved
-- release: units l0=1 linf=1

-- case: a declared number of groups is enforced where the keys can take more
SELECT device, COUNT(*) AS n FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5

-- case: a declared number of groups is not needed where the keys can take fewer
SELECT duration > 60 AS long, COUNT(*) AS n FROM events GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=5

-- case: a join multiplies the limits
SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a join with a table without limits has none
SELECT COUNT(*) FROM orders o JOIN logins l ON o.customer_id = l.customer_id;
-- refuse: unbounded-contribution at 1:8
