-- Transitions behind that of a number. ARGV: the number, how many pieces. Answers the number of the last, and pieces as they are stored.
--- include script/prelude

return {
  ms(whole(call('HGET', K.meta, 'transitions') or '')),
  unpack(call('ZRANGE', K.transitions, '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', '0', ARGV[2])),
}
