-- The row of a job takes its progress along, whoever removes it: a library that knows none, too.
-- Without progress there is no trigger. It has no inputs.
CREATE TRIGGER IF NOT EXISTS queue_progress_gone AFTER DELETE ON queue_jobs
BEGIN DELETE FROM queue_progress WHERE queue = OLD.queue AND id = OLD.id; END
