-- Corrects the rates of limits by the usage that handlers reported. In a turn with such reports,
-- they precede the acks:
--
-- 'used', the number of runs, and for each run:
--   claim, id, the number of limits, and
--   for each limit the first six bytes of its keys, or '', and the number of starts
--
-- Each of these runs ends in this turn. Its receipt is read before its ending removes it.
if ARGV[from] == 'used' then
  local at = from + 2
  for _ = 1, tonumber(ARGV[from + 1]) do
    local claim, id, behind, used = ARGV[at], ARGV[at + 1], at + 3 + 2 * ARGV[at + 2], {}
    for pair = at + 3, behind - 1, 2 do
      used[ARGV[pair]] = tonumber(ARGV[pair + 1])
    end
    at = behind
    if has('m') and call('HGET', K.active, id) == lane .. ':' .. claim then
      limits().correct(id, used)
    end
  end
  from = at
end
