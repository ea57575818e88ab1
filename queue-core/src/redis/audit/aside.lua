-- Renames the keys of the wrong type. An existing key with the new name is not replaced.
-- KEYS: all keys of the queue
-- ARGV[1]    suffix  the suffix for the new name of a key
-- ARGV[2..]  types   the type of each key, in the order of KEYS
-- Returns: for each key its new name, or '' if it was not renamed
--- include script/prelude

local aside, moved = {}, 0
for at, key in ipairs(KEYS) do
  local found = call('TYPE', key).ok
  aside[at] = ''
  if found ~= 'none' and found ~= ARGV[at + 1] and call('RENAMENX', key, key .. ARGV[1]) == 1 then
    aside[at], moved = key .. ARGV[1], moved + 1
  end
end
count('repaired', moved)
return aside
