-- Removes the progress of a job when the job's row is removed, even by a library without progress.
-- This trigger is created with the first progress. It has no inputs.
CREATE TRIGGER IF NOT EXISTS queue_progress_gone AFTER DELETE ON queue_jobs
BEGIN DELETE FROM queue_progress WHERE queue = OLD.queue AND id = OLD.id; END
