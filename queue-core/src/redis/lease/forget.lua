-- The end of a sweep: names of which a whole scan that began after their fencing found nothing
-- more. ARGV: names.
--- include script/prelude

redis.pcall('SREM', K.leaving, unpack(ARGV))
return call('HDEL', K.fenced, unpack(ARGV))
