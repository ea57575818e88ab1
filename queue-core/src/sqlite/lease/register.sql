-- A new lane, which has taken no turn yet.
-- ?1 queue, ?2 name, ?3 name of its process, ?4 deadline, ?5 term of its lease
INSERT INTO queue_lanes (queue, name, process, deadline, term) VALUES (?1, ?2, ?3, ?4, ?5)
