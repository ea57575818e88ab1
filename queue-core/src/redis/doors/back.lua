-- back: to waiting again. `push` and `wait` find the place; what a job has to be to come back is asked here.
--- include doors/ready

-- Ready now, at the head of its list or at the end. True: a list was empty before.
local function back(ids, at_head)
  return push(ids, at_head)
end

-- Parked until a worker comes that knows the task.
local function back_parked(id, task)
  mark('a')
  call('ZADD', K.parked, 0, task .. '\0' .. id)
  call('HSET', K.notes, id, task)
end

-- One more failure in a job's history; the oldest go first.
local function add_failure(id, text)
  local failures = unpacked_pairs(call('HGET', K.errors, id))
  table.insert(failures, { ms(now), text })
  while #failures > 10 do
    table.remove(failures, 1)
  end
  put_rare('f', K.errors, id, cmsgpack.pack(failures))
end

-- Counters as those of a job that has never run.
local function clear_counts(id)
  for _, key in ipairs({ K.attempts, K.crashes, K.snoozes }) do
    call('HDEL', key, id)
  end
end
