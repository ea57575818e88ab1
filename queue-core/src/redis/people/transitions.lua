-- Reads the transitions after a number.
-- ARGV[1]  number  the number
-- ARGV[2]  limit   the most pieces
-- Returns: the number of the last transition, the life of the mark, and the stored pieces
--- include script/prelude, script/incarnation

return {
  ms(whole(call('HGET', K.meta, 'transitions') or '')),
  incarnation_of_follow_mark(ms(whole(call('HGET', K.meta, 'follows') or ''))),
  unpack(call('ZRANGE', K.transitions, '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', '0', ARGV[2])),
}
