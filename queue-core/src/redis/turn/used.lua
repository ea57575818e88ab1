-- Corrects the rates of limits by what runs have really used of them. Where a turn has such
-- reports, they come before the acks:
--
--   'used', how many runs, and of each run:
--     claim, id, how many limits, and
--     of each limit the first six bytes of its keys, or '', and how many starts
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
