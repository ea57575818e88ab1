-- How often a run of a job was stopped because its worker stopped, and when last. A library that does not know these columns leaves them alone.
ALTER TABLE queue_jobs ADD COLUMN releases INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_jobs ADD COLUMN released INTEGER;
