-- Texts of which kernel_rules.txt says what the kernel states; the first column is the unit.

-- a column and a column
SELECT pid AS u, n FROM notes WHERE nid = pid AND n = 3;
-- columns of two types
SELECT pid AS u FROM people WHERE city = CAST(pid AS VARCHAR);
-- inexact columns
SELECT pid AS u FROM people WHERE w = w + 1 AND at = at AND w = 2.5;
-- a constant of another type
SELECT pid AS u FROM people WHERE pid = 2.5;
-- a constant on the left
SELECT pid AS u FROM people WHERE 3 = pid;
-- NULL
SELECT pid AS u FROM visits WHERE hadm IS NULL AND day IS NOT NULL;
-- comparisons that say nothing
SELECT pid AS u FROM visits WHERE hadm > 1 AND hadm <> 2;
-- an OR
SELECT pid AS u FROM visits WHERE hadm = 1 OR vid = 2;
-- rn = 1
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn = 1;
-- rn = 2
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn = 2;
-- rn <= 3
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn <= 3;
-- rn < 3
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn < 3;
-- rn < 1
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn < 1;
-- 3 >= rn
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE 3 >= rn;
-- rn > 1
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn > 1;
-- rn <> 1
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE rn <> 1;
-- vid <= 3
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) WHERE vid <= 3;
-- another name of rn
SELECT pid AS u FROM (SELECT pid, rn AS k FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION
BY pid ORDER BY vid) AS rn FROM visits)) WHERE k <= 2;
-- a rank of ranks
SELECT pid AS u FROM (SELECT pid, vid, rn, RANK() OVER (PARTITION BY pid ORDER BY rn) AS r FROM
(SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn FROM visits)) WHERE
rn <= 2 AND r <= 1;
-- rn before rows repeat
SELECT pid AS u FROM (SELECT pid, vid, day, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn
FROM visits) CROSS JOIN zones WHERE rn <= 2;
-- people and visits
SELECT p.pid AS u, v.vid FROM people p JOIN visits v ON v.pid = p.pid;
-- people and visits of one day
SELECT p.pid AS u, v.vid FROM people p JOIN visits v ON v.pid = p.pid AND v.hadm = 3;
-- people and visits, said above
SELECT p.pid AS u, v.vid FROM people p CROSS JOIN visits v WHERE v.pid = p.pid;
-- three levels
SELECT p.pid AS u, v.vid FROM people p JOIN visits v ON v.pid = p.pid JOIN labs l ON l.vid = v.vid;
-- labs above visits
SELECT v.pid AS u FROM labs l JOIN visits v ON v.vid = l.vid;
-- labs that agree on x
SELECT a.x AS u FROM labs a JOIN labs b ON a.x = b.x;
-- stays that agree
SELECT a.pid AS u FROM stays a JOIN stays b ON a.hosp = b.hosp AND a.no = b.no;
-- stays that half agree
SELECT a.pid AS u FROM stays a JOIN stays b ON a.hosp = b.hosp;
-- beds of a stay
SELECT s.pid AS u, b.bed FROM beds b JOIN stays s ON s.hosp = b.hosp AND s.no = b.no;
-- beds of a stay, the other way
SELECT s.pid AS u, b.bed FROM beds b JOIN stays s ON s.hosp = b.no AND s.no = b.hosp;
-- a join by DOUBLE
SELECT p.pid AS u FROM people p JOIN odd o ON o.w = p.w;
-- a join by another type
SELECT p.pid AS u FROM people p JOIN areas a ON a.n = p.w;
-- areas
SELECT p.pid AS u, n FROM people p JOIN areas a ON a.city = p.city;
-- zones
SELECT p.pid AS u, zone FROM people p JOIN zones z ON z.city = p.city;
-- zones and areas
SELECT p.pid AS u, zone FROM people p JOIN zones z ON z.city = p.city JOIN areas a ON a.city =
z.zone;
-- all zones
SELECT p.pid AS u, zone FROM people p CROSS JOIN zones;
-- a public side first
SELECT v.pid AS u, a.n FROM areas a JOIN visits v ON v.day = a.n;
-- public rows alone
SELECT z.zone AS u FROM zones z JOIN areas a ON a.city = z.city;
-- public rows, half public
SELECT a.n AS u FROM areas a CROSS JOIN lost l;
-- values
SELECT p.pid AS u, c.x FROM people p JOIN (VALUES (1), (2)) c(x) ON c.x = p.pid;
-- one value
SELECT p.pid AS u, c.x FROM people p CROSS JOIN (VALUES (1)) c(x);
-- a value twice
SELECT p.pid AS u, c.x FROM people p JOIN (VALUES (1), (1)) c(x) ON c.x = p.pid;
-- values of two columns
SELECT p.pid AS u, c.x FROM people p JOIN (VALUES (1, 1), (1, 2), (2, 2)) c(x, y) ON c.x = p.pid AND
c.y = p.pid;
-- values of DOUBLE
SELECT p.pid AS u, c.x FROM people p JOIN (VALUES (1, 1e0), (1, 2e0)) c(x, y) ON c.x = p.pid AND c.y
= p.w;
-- a card or none
SELECT p.pid AS u, colour FROM people p LEFT JOIN cards c ON c.pid = p.pid;
-- visits or none
SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.pid = p.pid;
-- visits of a day or none
SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.pid = p.pid AND v.hadm = 1;
-- a person or none
SELECT v.pid AS u, city FROM visits v LEFT JOIN people p ON p.pid = v.pid;
-- others' visits or none
SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.day = p.w;
-- private rows or none
SELECT zone AS u, pid FROM zones z LEFT JOIN visits v ON v.hadm = 1;
-- an area or none
SELECT pid AS u, n FROM people p LEFT JOIN areas a ON a.city = p.city;
-- an area of some or none
SELECT pid AS u, n FROM people p LEFT JOIN areas a ON a.city = p.city AND a.n = p.pid;
-- an area beside others or none
SELECT pid AS u, n FROM people p LEFT JOIN areas a ON a.city = p.city AND a.n > 1;
-- zones or none
SELECT pid AS u, zone FROM people p LEFT JOIN zones z ON z.city = p.city;
-- an empty side
SELECT pid AS u, zone FROM people p LEFT JOIN zones z ON 1 = 0;
-- what was optional and is there
SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.pid = p.pid WHERE v.vid = 1;
-- two optional sides
SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.pid = p.pid LEFT JOIN labs l ON l.vid =
v.vid WHERE l.lid = 1;
-- two optional sides, one there
SELECT p.pid AS u, day FROM people p LEFT JOIN cards c ON c.pid = p.pid LEFT JOIN visits v ON v.pid
= p.pid WHERE v.vid IS NOT NULL;
-- a RIGHT JOIN
SELECT p.pid AS u FROM visits v RIGHT JOIN people p ON v.pid = p.pid;
-- a FULL JOIN
SELECT p.pid AS u FROM visits v FULL JOIN people p ON v.pid = p.pid;
-- EXISTS
SELECT pid AS u FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND v.hadm =
p.pid);
-- EXISTS of others
SELECT pid AS u FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.hadm = p.pid);
-- EXISTS of public rows
SELECT pid AS u, city FROM people p WHERE EXISTS (SELECT 1 FROM areas a WHERE a.city = p.city);
-- IN of public rows
SELECT pid AS u FROM people WHERE city IN (SELECT city FROM zones);
-- IN of others
SELECT pid AS u FROM people WHERE pid IN (SELECT hadm FROM visits);
-- EXISTS as a column
SELECT pid AS u, EXISTS (SELECT 1 FROM cards c WHERE c.pid = p.pid) AS e FROM people p;
-- a group of a unit
SELECT pid AS u, COUNT(*) AS n FROM visits GROUP BY pid;
-- a group of a unit and day
SELECT pid AS u, day, COUNT(*) AS n FROM visits GROUP BY pid, day;
-- a group of a key
SELECT vid AS u, COUNT(*) AS n FROM labs GROUP BY vid;
-- a group of two keys
SELECT hosp AS u, no, MIN(pid) AS a, MAX(pid) AS b FROM stays GROUP BY hosp, no;
-- a group of a key and DOUBLE
SELECT pid AS u, w, COUNT(*) AS n FROM people GROUP BY pid, w;
-- a group of DOUBLE
SELECT w AS u, COUNT(*) AS n FROM people GROUP BY w;
-- groups of others
SELECT day AS u, COUNT(*) AS n FROM visits GROUP BY day;
-- groups of public rows
SELECT city AS u, COUNT(*) AS n FROM zones GROUP BY city;
-- one group
SELECT COUNT(*) AS u FROM visits;
-- several sets
SELECT pid AS u, day, COUNT(*) FROM visits GROUP BY CUBE (pid, day);
-- groups of a join
SELECT p.pid AS u, hadm, COUNT(*) FROM people p JOIN visits v ON v.pid = p.pid JOIN labs l ON l.vid
= v.vid GROUP BY p.pid, hadm;
-- groups that meet
SELECT p.pid AS u, c FROM people p JOIN (SELECT pid, COUNT(*) AS c FROM visits GROUP BY pid) g ON
g.pid = p.pid;
-- groups that meet below
SELECT v.pid AS u, c FROM visits v JOIN (SELECT vid, COUNT(*) AS c FROM labs GROUP BY vid) g ON
g.vid = v.vid;
-- different rows
SELECT DISTINCT pid AS u, day FROM visits;
-- a count
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid) AS c FROM visits;
-- a count by a key
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY vid) AS c FROM visits;
-- a count of others
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY day) AS c FROM visits;
-- a count of all
SELECT pid AS u, vid, COUNT(*) OVER () AS c FROM visits;
-- two windows
SELECT pid AS u, vid, COUNT(*) OVER () AS c, COUNT(*) OVER (PARTITION BY pid) AS d FROM visits;
-- two windows of a unit
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid, day) AS c, ROW_NUMBER() OVER (PARTITION BY
vid ORDER BY vid) AS d FROM visits;
-- a running count
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid ORDER BY day) AS c FROM visits;
-- a count of two rows
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid ORDER BY day ROWS 1 PRECEDING) AS c FROM
visits;
-- a count of two rows without ties
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid ORDER BY vid ROWS 1 PRECEDING) AS c FROM
visits;
-- a count of near days
SELECT pid AS u, vid, COUNT(*) OVER (PARTITION BY pid ORDER BY hadm RANGE 1 PRECEDING) AS c FROM
visits;
-- LAG with ties
SELECT pid AS u, vid, LAG(day) OVER (PARTITION BY pid ORDER BY day) AS c FROM visits;
-- LAG without ties
SELECT pid AS u, vid, LAG(day) OVER (PARTITION BY pid ORDER BY day, vid) AS c FROM visits;
-- LAG of equal rows
SELECT pid AS u, vid, LAG(day) OVER (PARTITION BY pid ORDER BY day, hadm, vid) AS c FROM visits;
-- RANK with ties
SELECT pid AS u, vid, RANK() OVER (PARTITION BY pid ORDER BY day) AS c FROM visits;
-- a rank by DOUBLE
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY w ORDER BY pid) AS c FROM odd;
-- an order of DOUBLE
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY w) AS c FROM odd;
-- an order of its text
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY n, CAST(w AS VARCHAR)) AS c FROM odd;
-- an order of another cast
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY n, CAST(w AS DATE)) AS c FROM (SELECT
pid, n, CAST(n AS VARCHAR) AS w FROM odd);
-- an order of instants
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY at) AS c FROM (SELECT pid, at FROM
people);
-- an order of an expression
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid + 1) AS c FROM visits;
-- public ties
SELECT city AS u, ROW_NUMBER() OVER (PARTITION BY city ORDER BY city) AS c FROM zones;
-- a window of public rows
SELECT city AS u, COUNT(*) OVER () AS c FROM zones;
-- UNION ALL
SELECT pid AS u, vid FROM visits UNION ALL SELECT pid, colour FROM cards;
-- UNION
SELECT pid AS u, vid FROM visits UNION SELECT pid, colour FROM cards;
-- EXCEPT
SELECT pid AS u, vid FROM visits EXCEPT SELECT pid, colour FROM cards;
-- EXCEPT ALL
SELECT pid AS u, vid FROM visits EXCEPT ALL SELECT pid, colour FROM cards;
-- UNION ALL in other places
SELECT pid AS u, n FROM notes UNION ALL SELECT n, pid FROM profiles;
-- UNION ALL of keys
SELECT vid AS u, x FROM labs UNION ALL SELECT vid, lid FROM labs;
-- UNION ALL of two keys
SELECT hosp AS u, no FROM stays UNION ALL SELECT hosp, no FROM beds;
-- UNION ALL of two types
SELECT pid AS u, vid FROM visits UNION ALL SELECT CAST(pid AS BIGINT), colour FROM cards;
-- UNION ALL without a bound
SELECT pid AS u, vid FROM visits UNION ALL SELECT pid, n FROM odd;
-- UNION ALL with public rows
SELECT pid AS u, vid FROM visits UNION ALL SELECT n, n FROM areas;
-- UNION ALL of several units
SELECT a.pid AS u, b.pid FROM cards a CROSS JOIN cards b UNION ALL SELECT pid, pid FROM cards;
-- UNION ALL twice
SELECT pid AS u, vid FROM visits UNION ALL SELECT pid, colour FROM cards UNION ALL SELECT pid, n
FROM profiles;
-- UNION ALL that meets
SELECT p.pid AS u FROM people p JOIN (SELECT pid, vid FROM visits UNION ALL SELECT pid, colour FROM
cards) t ON t.pid = p.pid;
-- ORDER BY
SELECT pid AS u, vid FROM visits ORDER BY vid;
-- LIMIT
SELECT pid AS u, vid FROM visits LIMIT 2;
-- LIMIT 1
SELECT p.pid AS u, z.city FROM people p CROSS JOIN (SELECT city FROM zones LIMIT 1) z;
-- LIMIT 1 of private rows
SELECT pid AS u, vid FROM visits LIMIT 1;
-- public LIMIT
SELECT p.pid AS u, a.n FROM people p JOIN (SELECT * FROM areas LIMIT 5) a ON a.city = p.city;
-- no FROM
SELECT 1 AS u, 2 AS n;
-- an expression
SELECT pid AS u, vid + hadm AS n, day AS d FROM visits;
-- two expressions of a name
SELECT u, n + u AS m FROM (SELECT pid AS u, vid + 1 AS n FROM visits);
-- a first visit or none
SELECT p.pid AS u, r.vid FROM people p LEFT JOIN (SELECT pid, vid, ROW_NUMBER() OVER (PARTITION BY
pid ORDER BY vid) AS rn FROM visits) r ON r.pid = p.pid AND r.rn = 1;
-- two zones
SELECT p.pid AS u, z.zone FROM people p JOIN (SELECT city, zone, ROW_NUMBER() OVER (PARTITION BY
city ORDER BY zone) AS rn FROM zones) z ON z.city = p.city WHERE rn <= 2;
-- two zones, said below
SELECT p.pid AS u, z.zone FROM people p JOIN (SELECT * FROM (SELECT city, zone, ROW_NUMBER() OVER
(PARTITION BY city ORDER BY zone) AS rn FROM zones) WHERE rn <= 2) z ON z.city = p.city;
-- a window of two units
SELECT p AS u, c FROM (SELECT a.pid AS p, b.pid AS q, COUNT(*) OVER (PARTITION BY a.pid, b.pid) AS c
FROM cards a CROSS JOIN cards b) WHERE p = q;
-- a window by an expression
SELECT pid AS u, COUNT(*) OVER (PARTITION BY pid + 1) AS c FROM visits;
-- an optional side by DOUBLE
SELECT p.pid AS u FROM people p LEFT JOIN people q ON q.w = p.w;
-- an optional side by its own columns
SELECT p.pid AS u, colour FROM people p LEFT JOIN cards c ON c.pid = p.pid AND c.colour = c.pid;
-- an optional side by columns of the other
SELECT p.pid AS u, colour FROM notes p LEFT JOIN cards c ON c.pid = p.pid AND p.n = p.pid;
-- a rank of an optional side that is there
SELECT u FROM (SELECT p.pid AS u, r.rn FROM people p LEFT JOIN (SELECT pid, vid, ROW_NUMBER() OVER
(PARTITION BY pid ORDER BY vid) AS rn FROM visits) r ON r.pid = p.pid WHERE r.vid IS NOT NULL)
WHERE rn <= 1;
-- doses and their visits
SELECT d.pid AS u, v.vid FROM doses d JOIN visits v ON v.vid = d.vid;
-- doses beside their visits
SELECT d.pid AS u, v.vid FROM doses d LEFT JOIN visits v ON v.vid = d.vid;
-- doses and doses of a visit
SELECT d.pid AS u, e.n FROM doses d JOIN doses e ON e.vid = d.vid;
-- doses by visit, NULL among them
SELECT vid AS u, MAX(n) AS n FROM doses GROUP BY vid;
-- doses by visit
SELECT vid AS u, MAX(n) AS n FROM doses WHERE vid IS NOT NULL GROUP BY vid;
-- numbers of doses of a visit, NULL among them
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY vid ORDER BY did) AS rn FROM doses;
-- numbers of doses of a visit
SELECT pid AS u, ROW_NUMBER() OVER (PARTITION BY vid ORDER BY did) AS rn FROM doses
WHERE vid IS NOT NULL;
-- doses with a visit
SELECT pid AS u, n FROM doses d WHERE EXISTS (SELECT 1 FROM labs l WHERE l.vid = d.vid);
-- visits of doses and labs
SELECT vid AS u, n FROM doses UNION ALL SELECT vid, x FROM labs;
-- ranks by every column, one of them inexact
SELECT u, ROW_NUMBER() OVER (PARTITION BY u ORDER BY u, w) AS rn FROM (SELECT pid AS u, w FROM odd);
-- ranks by every column, all of them exact
SELECT u, ROW_NUMBER() OVER (PARTITION BY u ORDER BY u, n) AS rn FROM (SELECT pid AS u, n FROM odd);
