-- Members of a sorted set behind the place of one that may be gone meanwhile. ARGV: the set, how many, and the score and the member behind which they are, or
-- neither. Answers: member, score, member, score.
--- include script/prelude

local SETS = { scheduled = K.scheduled, retry = K.retry, dead = K.dead, parked = K.parked, line = K.line }
local set, limit, score, last = SETS[ARGV[1]], tonumber(ARGV[2]), ARGV[3], ARGV[4]

-- Whether one member comes behind another of its score: a server compares their bytes, Lua would compare letters of a language.
local function is_behind(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = byte(one, at), byte(other, at)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

local from = 0
if score then
  from = call('ZCOUNT', set, '-inf', '(' .. score)
  local upto = call('ZCOUNT', set, '-inf', score)
  while from < upto do
    local middle = math.floor((from + upto) / 2)
    if is_behind(call('ZRANGE', set, middle, middle)[1], last) then
      upto = middle
    else
      from = middle + 1
    end
  end
end
return call('ZRANGE', set, from, from + limit - 1, 'WITHSCORES')
