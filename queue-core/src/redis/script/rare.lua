-- Writes a key that most queues do not have. Such a key is written only here, because its feature
-- bit has to be set first.
--- include script/bits, script/tools

local function put_rare(bit, key, field, value)
  set_bit(bit)
  set_field(key, field, value)
end

-- Adds to a counter of a job.
local function increment_count(bit, key, id, more)
  put_rare(bit, key, id, ms(whole(call('HGET', key, id)) + (more or 1)))
end
