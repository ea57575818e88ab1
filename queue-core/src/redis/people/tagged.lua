-- Ids of jobs that have a tag, in the order of their bytes.
--
-- Inputs
--   the tag's name and its value, how many, the id behind which they are, or '', and, where this id
--   means nothing to another server, the life of the one that has given it.
-- Output
--   how many jobs have the tag, the life of this server if one was given, and the ids.
--- include script/prelude, script/life, doors/tags

local digest = digest_of_tag(ARGV[1], ARGV[2])
-- No id begins with this byte.
local upto = '(' .. digest .. '\255'
local alive = ARGV[5] and life() or ''
local from = (ARGV[4] == '' or alive ~= (ARGV[5] or '')) and '[' .. digest or '(' .. digest .. ARGV[4]
local found = { call('ZLEXCOUNT', K.tags, '[' .. digest, upto), alive }
for _, member in ipairs(call('ZRANGEBYLEX', K.tags, from, upto, 'LIMIT', 0, ARGV[3])) do
  found[#found + 1] = string.sub(member, 9)
end
return found
