-- Columns beside the link that lead to the same person, as a check has recorded (PRIVACY.md R93).
-- catalog: paths

-- case: a join by a column beside the link alone
SELECT COUNT(*), SUM(i.v) FROM items i JOIN visits x USING (vid);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60
-- release: sum l0=1 linf=600

-- case: a join by the link alone
SELECT COUNT(*) FROM items i JOIN stays s USING (sid);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: a join by both
SELECT COUNT(*) FROM items i JOIN stays s ON s.sid = i.sid AND s.vid = i.vid;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: a join with people where the link is four hops long
SELECT COUNT(*) FROM notes n JOIN people p ON p.pid = n.pid WHERE p.v > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: two columns beside their links
SELECT COUNT(*) FROM notes n JOIN items i ON i.vid = n.vid;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3600

-- case: a column of another table's key is no path
SELECT COUNT(*) FROM notes n JOIN items i ON i.vid = n.sid;
-- refuse: unequal-units at 1:35

-- case: an answer to a note of one's own
SELECT COUNT(*) FROM notes a JOIN notes b ON a.reply = b.nid WHERE b.v > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: LEFT JOIN keeps rows without a visit
SELECT COUNT(*), COUNT(x.v) FROM items i LEFT JOIN visits x ON x.vid = i.vid;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60
-- release: rows l0=1 linf=60
-- release: rows l0=1 linf=60

-- case: EXISTS by a column beside the link
SELECT COUNT(*) FROM visits x WHERE EXISTS (SELECT 1 FROM notes n WHERE n.vid = x.vid AND n.v > 0);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: filtered by
SELECT COUNT(*) FROM notes WHERE vid IS NULL OR vid BETWEEN 2 AND 5;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: grouped by, where it is there
SELECT COUNT(*) FROM (SELECT vid, MAX(v) AS m FROM items WHERE vid IS NOT NULL GROUP BY vid) s
WHERE m > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: grouped by, NULL among them
SELECT COUNT(*) FROM (SELECT vid, MAX(v) AS m FROM items GROUP BY vid) s WHERE m > 3;
-- refuse: unsupported-private-operator at 1:67

-- case: groups of which only those that meet a visit count
SELECT COUNT(*) FROM visits x LEFT JOIN (SELECT vid, COUNT(*) AS n FROM items GROUP BY vid) s
USING (vid) WHERE n > 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: a subquery that correlates
SELECT COUNT(*) FROM visits x WHERE (SELECT COUNT(*) FROM items i WHERE i.vid = x.vid) > 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: a partition, where it is there
SELECT SUM(v) FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY vid ORDER BY iid) AS n FROM items
WHERE vid > 0) s WHERE n = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=600

-- case: a partition, NULL among them
SELECT SUM(v) FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY vid ORDER BY iid) AS n FROM items) s
WHERE n = 1;
-- refuse: unsupported-private-operator at 1:63

-- case: the person and a column beside the link, NULL among them
SELECT COUNT(*) FROM (SELECT p.pid, i.vid, MAX(i.v) AS m FROM people p JOIN items i ON i.pid = p.pid
GROUP BY p.pid, i.vid) s WHERE m > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=60

-- case: shown as they are
SELECT vid, COUNT(*) FROM items WHERE vid IS NOT NULL GROUP BY vid;
-- refuse: unit-key-exposed at 1:64
