-- Ids of jobs that have a tag, in the order of their bytes. ARGV: the tag's name and its value, how many, and the id behind which they are, or ''.
-- Answers: how many jobs have the tag, and the ids.
--- include script/prelude, doors/tags

local digest = digest_of_tag(ARGV[1], ARGV[2])
-- No id begins with this byte.
local upto = '(' .. digest .. '\255'
local from = ARGV[4] == '' and '[' .. digest or '(' .. digest .. ARGV[4]
local found = { call('ZLEXCOUNT', K.tags, '[' .. digest, upto) }
for _, member in ipairs(call('ZRANGEBYLEX', K.tags, from, upto, 'LIMIT', 0, ARGV[3])) do
  found[#found + 1] = string.sub(member, 9)
end
return found
