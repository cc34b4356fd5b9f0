-- Declared limits: by a grouping, of groups that multiply, and of what one unit's values add up to.
-- catalog: limits

-- case: a limit by a grouping stands in the place of that for all
SELECT status, COUNT(*) AS n FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=4

-- case: by several keys the least limit of rows holds
SELECT date_trunc('week', placed_at) AS w, status, COUNT(*) AS n FROM orders GROUP BY w, status;
-- accept
-- keys: 315 public, l0 enforced
-- release: rows l0=3 linf=2

-- case: an expression that is not declared has the limit of all others
SELECT date_trunc('month', placed_at) AS w, COUNT(*) AS n FROM orders GROUP BY w;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: what is computed of a key has no more groups than it
SELECT note_length // 7 AS k, COUNT(*) AS n FROM orders GROUP BY k;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=8 linf=1.4142
-- release: rows l0=8 linf=10

-- case: groups by several keys multiply, unless others are fewer
SELECT note, note_length, COUNT(*) AS n FROM orders GROUP BY note, note_length;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: a total of one group is clipped to what is declared
SELECT SUM(amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=700

-- case: totals of several groups are scaled together
SELECT status, SUM(amount) AS s FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=3 linf=700

-- case: under pure by the other norm
SELECT status, SUM(amount) AS s FROM orders GROUP BY status;
-- accountant: pure
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=3 linf=700

-- case: what is computed of the column has no limit of its total
SELECT SUM(2 * amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10000

-- case: a sum of what has no bounds is refused, whatever the limit of another
SELECT SUM(note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:12
