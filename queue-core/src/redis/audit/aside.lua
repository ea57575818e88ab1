-- Renames the keys that do not hold what they should; what lies under the new name stays.
--
-- Inputs
--   what is added to a name, and the type that belongs to each of the keys.
-- Output
--   of each that was renamed, the new name, and of the others nothing.
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
