-- Reads the types of the keys.
-- KEYS: all keys of the queue
-- Returns: for each key the word of Redis: 'none', 'string', 'list', 'set', 'zset', 'hash' or
--   'stream'
--- include script/prelude

local types = {}
for at, key in ipairs(KEYS) do
  types[at] = call('TYPE', key).ok
end
return types
