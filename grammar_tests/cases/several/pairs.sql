-- Joins of rows of two people, where facts bound both sides: direct counts and sums by public keys.
-- catalog: forum

-- case: questions and the answers of others
SELECT q.topic, COUNT(*) AS n
FROM questions q
JOIN answers a ON a.question_id = q.question_id
WHERE q.user_id <> a.user_id
GROUP BY q.topic;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=19

-- case: questions without a limit of rows with one key
SELECT COUNT(*) FROM questions q JOIN votes v ON v.answer_id = q.question_id;
-- refuse: unequal-units at 1:39

-- case: sums and averages of joined rows
SELECT SUM(a.score), AVG(a.score) FROM questions q, answers a WHERE q.question_id = a.question_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=19
-- release: sum l0=1 linf=114

-- case: an extreme of joined rows
SELECT MAX(a.score) FROM questions q, answers a WHERE q.question_id = a.question_id;
-- refuse: unsupported-private-operator at 1:8

-- case: answers to one question
SELECT COUNT(*) FROM answers a JOIN answers b ON a.question_id = b.question_id AND a.user_id < b.user_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=40

-- case: answers of one day
SELECT COUNT(*) FROM answers a JOIN answers b ON a.day = b.day;
-- refuse: unequal-units at 1:37

-- case: beside the rows of both users
SELECT u.region, v.region AS other, COUNT(*)
FROM questions q
JOIN answers a ON a.question_id = q.question_id
JOIN users u ON u.user_id = a.user_id
JOIN users v ON v.user_id = q.user_id
GROUP BY 1, 2;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=19

-- case: beside answers of a third user
SELECT COUNT(*)
FROM questions q
JOIN answers a ON a.question_id = q.question_id
JOIN answers b ON b.question_id = q.question_id;
-- refuse: unsupported-private-operator at 4:6

-- case: beside public rows
SELECT t.area, COUNT(*)
FROM questions q
JOIN answers a ON a.question_id = q.question_id
JOIN topics t ON t.topic = q.topic
GROUP BY t.area;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=38

-- case: a public table without its joined rows
SELECT t.area, COUNT(x.score)
FROM topics t
LEFT JOIN (
  SELECT q.topic, a.score FROM questions q JOIN answers a ON a.question_id = q.question_id
) x ON x.topic = t.topic
GROUP BY t.area;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=38

-- case: an outer join of two users
SELECT COUNT(*) FROM questions q LEFT JOIN answers a ON a.question_id = q.question_id;
-- refuse: unequal-units at 1:44

-- case: answers by different users
SELECT COUNT(DISTINCT a.user_id) FROM questions q JOIN answers a ON a.question_id = q.question_id;
-- refuse: unsupported-private-operator at 1:8
