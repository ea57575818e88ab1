-- The triggers that record transitions, while a watcher follows a queue of the file. The numbers of
-- states are those of `row.rs`; the states 0, 1, 11, 12 and 13 all mean ready. A new job that is
-- scheduled for the time 0 has no place yet. A job that is being edited is scheduled for the time
-- -1 - s, where s was its state; this is not a transition.
CREATE TRIGGER IF NOT EXISTS queue_transition_new AFTER INSERT ON queue_jobs
WHEN NOT (NEW.state = 2 AND NEW.pos = 0) AND EXISTS (SELECT 1 FROM queue_followed WHERE queue = NEW.queue AND until IS NOT 0)
BEGIN
    UPDATE queue_followed SET last = last + 1 WHERE queue = NEW.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    INSERT OR REPLACE INTO queue_transitions (queue, number, at, id, head, from_state, to_state, attempts, note)
    SELECT NEW.queue, last, coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER)), NEW.id, substr(NEW.envelope, 1, 258), NULL, NEW.state, NEW.attempts, NULL
    FROM queue_followed WHERE queue = NEW.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    DELETE FROM queue_transitions WHERE queue = NEW.queue AND number = (SELECT last - 10000 FROM queue_followed WHERE queue = NEW.queue);
END;
CREATE TRIGGER IF NOT EXISTS queue_transition_change AFTER UPDATE OF state ON queue_jobs
WHEN NOT (NEW.state = 2 AND NEW.pos < 0)
AND CASE WHEN OLD.state IN (1, 11, 12, 13) OR OLD.state = 2 AND OLD.pos IN (-2, -12, -13, -14) THEN 0 WHEN OLD.state = 2 AND OLD.pos < 0 THEN -1 - OLD.pos ELSE OLD.state END
    <> CASE WHEN NEW.state IN (1, 11, 12, 13) THEN 0 ELSE NEW.state END
AND EXISTS (SELECT 1 FROM queue_followed WHERE queue = NEW.queue AND until IS NOT 0)
BEGIN
    UPDATE queue_followed SET last = last + 1 WHERE queue = NEW.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    INSERT OR REPLACE INTO queue_transitions (queue, number, at, id, head, from_state, to_state, attempts, note)
    SELECT NEW.queue, last, coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER)), NEW.id, substr(NEW.envelope, 1, 258), CASE WHEN OLD.state = 2 AND OLD.pos < 0 THEN -1 - OLD.pos WHEN NOT (OLD.state = 2 AND OLD.pos = 0) THEN OLD.state END, NEW.state, NEW.attempts, CASE WHEN NEW.state IN (7, 8) THEN substr(CAST(NEW.note AS BLOB), 1, 200) END
    FROM queue_followed WHERE queue = NEW.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    DELETE FROM queue_transitions WHERE queue = NEW.queue AND number = (SELECT last - 10000 FROM queue_followed WHERE queue = NEW.queue);
END;
-- A removed job that was active is done. The removal of the record of an ended job is not a
-- transition.
CREATE TRIGGER IF NOT EXISTS queue_transition_removed AFTER DELETE ON queue_jobs
WHEN OLD.state NOT IN (6, 7, 8, 9) AND EXISTS (SELECT 1 FROM queue_followed WHERE queue = OLD.queue AND until IS NOT 0)
BEGIN
    UPDATE queue_followed SET last = last + 1 WHERE queue = OLD.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    INSERT OR REPLACE INTO queue_transitions (queue, number, at, id, head, from_state, to_state, attempts, note)
    SELECT OLD.queue, last, coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER)), OLD.id, substr(OLD.envelope, 1, 258), OLD.state, CASE WHEN OLD.state = 4 THEN 6 END, OLD.attempts, NULL
    FROM queue_followed WHERE queue = OLD.queue AND until > coalesce(now, CAST(unixepoch('subsec') * 1000 AS INTEGER));
    DELETE FROM queue_transitions WHERE queue = OLD.queue AND number = (SELECT last - 10000 FROM queue_followed WHERE queue = OLD.queue);
END;
