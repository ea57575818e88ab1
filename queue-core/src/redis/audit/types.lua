-- What the keys hold, in Redis's own words: 'none', 'string', 'list', 'set', 'zset', 'hash', 'stream'.
local types = {}
for at, key in ipairs(KEYS) do
  types[at] = call('TYPE', key).ok
end
return types
