-- Reads the ids of the jobs with a tag, in the order of their bytes.
-- ARGV[1]  name   the name of the tag
-- ARGV[2]  value  the value of the tag
-- ARGV[3]  limit  the most ids
-- ARGV[4]  after  the id to continue after, or ''
-- ARGV[5]  life   the life of the server that has returned this id; omitted if the id is valid on
--                 any server
-- Returns: the number of jobs with the tag, the life of this server if one was passed, and the ids
--- include script/prelude, script/incarnation, doors/tags

local digest = digest_of_tag(ARGV[1], ARGV[2])
-- No id begins with this byte.
local upto = '(' .. digest .. '\255'
local alive = ARGV[5] and incarnation() or ''
local from = (ARGV[4] == '' or alive ~= (ARGV[5] or '')) and '[' .. digest or '(' .. digest .. ARGV[4]
local found = { call('ZLEXCOUNT', K.tags, '[' .. digest, upto), alive }
for _, member in ipairs(call('ZRANGEBYLEX', K.tags, from, upto, 'LIMIT', 0, ARGV[3])) do
  found[#found + 1] = string.sub(member, 9)
end
return found
