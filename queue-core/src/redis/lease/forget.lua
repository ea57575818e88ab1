-- Ends a sweep: forgets fenced lanes. A complete scan that began after their fencing found no job
-- of theirs.
-- ARGV[1..]  lanes  the names of the lanes
-- Returns: how many were fenced
--- include script/prelude

redis.pcall('SREM', K.leaving, unpack(ARGV))
return call('HDEL', K.fenced, unpack(ARGV))
