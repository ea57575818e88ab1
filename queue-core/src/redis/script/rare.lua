-- The one way to write a key that most queues do not have: its bit goes first.
--- include script/bits, script/tools

local function put_rare(bit, key, field, value)
  set_bit(bit)
  put(key, field, value)
end

-- Counts one more of something for a job.
local function one_more(bit, key, id, more)
  put_rare(bit, key, id, ms(whole(call('HGET', key, id)) + (more or 1)))
end
