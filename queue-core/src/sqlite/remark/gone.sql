-- The row of a job takes its remarks along, whoever removes it: a library that knows none, too.
-- Without remarks there is no trigger. It has no inputs.
CREATE TRIGGER IF NOT EXISTS queue_remarks_gone AFTER DELETE ON queue_jobs
BEGIN DELETE FROM queue_remarks WHERE queue = OLD.queue AND id = OLD.id; END
