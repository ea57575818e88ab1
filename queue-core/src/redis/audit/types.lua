-- What the keys hold, in Redis's own words: 'none', 'string', 'list', 'set', 'zset', 'hash',
-- 'stream'.
--- include script/prelude

local types = {}
for at, key in ipairs(KEYS) do
  types[at] = call('TYPE', key).ok
end
return types
