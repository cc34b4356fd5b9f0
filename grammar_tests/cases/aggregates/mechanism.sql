-- OPTIONS(mechanism = 'name'): the law of the noise by name, where the accountant can charge for it.
-- catalog: shop

-- case: Laplace where Gaussian is the better
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'laplace') status, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the Gaussian of the approximate accountant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian') COUNT(*) AS n FROM orders;
-- accountant: approximate
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the textbook at ε = 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian-textbook') COUNT(*) AS n FROM orders;
-- accountant: approximate
-- refuse: bad-option at 1:1

-- case: Gaussian noise is not pure
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian') COUNT(*) AS n FROM orders;
-- accountant: pure
-- refuse: bad-option at 1:1

-- case: no text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = laplace) COUNT(*) AS n FROM orders;
-- refuse: bad-option at 1:54

-- case: extremes by sparse vector
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector') status, MIN(quantity) AS least, MAX(quantity) AS most FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- choice: lowest reached of 21 l0=3 rows=1 least
-- choice: highest reached of 21 l0=3 rows=1 greatest

-- case: sparse vector without an extreme
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector') MEDIAN(quantity) AS m FROM orders;
-- refuse: bad-option at 1:1
