-- Transitions behind that of a number.
--
-- Inputs
--   the number, how many pieces.
-- Output
--   the number of the last, the life of the mark, and pieces as they are stored.
--- include script/prelude, script/life

return {
  ms(whole(call('HGET', K.meta, 'transitions') or '')),
  life_of_follow_mark(ms(whole(call('HGET', K.meta, 'follows') or ''))),
  unpack(call('ZRANGE', K.transitions, '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', '0', ARGV[2])),
}
