-- Writes a key that most queues do not have. Such a key is written only here, because its feature
-- bit has to be set first.
--- include script/bits, script/tools

local function put_rare(bit, key, field, value)
  set_bit(bit)
  put(key, field, value)
end

-- Adds to a counter of a job.
local function one_more(bit, key, id, more)
  put_rare(bit, key, id, ms(whole(call('HGET', key, id)) + (more or 1)))
end
