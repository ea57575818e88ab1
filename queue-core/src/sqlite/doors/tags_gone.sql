-- The row of a job takes its tags along, whichever program removes it: a library that knows none, too.
-- Without tags there is no trigger. It has no inputs.
CREATE TRIGGER IF NOT EXISTS queue_tags_gone AFTER DELETE ON queue_jobs
BEGIN DELETE FROM queue_tags WHERE queue = OLD.queue AND id = OLD.id; END
