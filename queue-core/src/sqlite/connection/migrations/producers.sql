-- Producers by when they were seen, those of relays apart. A library that does not know this index keeps it all the same, so that it raises no schema number.
CREATE INDEX IF NOT EXISTS queue_producers_seen ON queue_producers (queue, (substr(answers, 1, 1) IS X'FF'), seen);
