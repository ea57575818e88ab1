-- Another envelope takes the tags along; those that it has are noted behind it.
-- Without tags there is no trigger. It has no inputs.
CREATE TRIGGER IF NOT EXISTS queue_tags_changed AFTER UPDATE OF envelope ON queue_jobs WHEN OLD.envelope IS NOT NEW.envelope
BEGIN DELETE FROM queue_tags WHERE queue = OLD.queue AND id = OLD.id; END
