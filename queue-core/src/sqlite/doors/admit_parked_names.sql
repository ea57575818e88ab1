-- The next name under which jobs are parked, between two others.
-- ?1 queue, ?2 behind this name, ?3 before this one
SELECT task FROM queue_parked WHERE queue = ?1 AND task > ?2 AND task < ?3 ORDER BY task LIMIT 1
