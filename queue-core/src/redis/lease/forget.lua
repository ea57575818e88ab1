-- Ends a sweep: deletes fenced lanes. A complete scan that began after they were fenced found no
-- job of theirs.
-- ARGV[1..]  lanes  the names of the lanes
-- Returns: the number of deleted lanes
--- include script/prelude

redis.pcall('SREM', K.leaving, unpack(ARGV))
return call('HDEL', K.fenced, unpack(ARGV))
