-- The record of a worker, with its first lane: since then the worker is registered.
-- ?1 queue, ?2 name of its process, ?3 record
INSERT OR IGNORE INTO queue_workers (queue, process, record) VALUES (?1, ?2, ?3)
