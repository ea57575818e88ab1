-- Damage by other hands. ARGV: what to look at, '1' to repair it, and then names, ids, or pairs. Answers with what is broken.
local what, repairs = ARGV[1], ARGV[2] == '1'
local broken = {}

local function found(subject)
  broken[#broken + 1] = subject
end

-- Whether an id is where it can be looked up at once.
local function is_placed(id)
  local task = call('HGET', K.notes, id)
  return call('HEXISTS', K.active, id) == 1 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.scheduled, id)
    or call('ZSCORE', K.retry, id) or call('ZSCORE', K.dead, id) or (task and call('ZSCORE', K.parked, task .. '\0' .. id))
end

-- A lease that never ends is none either.
local function has_lease(lane)
  local deadline = call('ZSCORE', K.leases, lane)
  return deadline and whole(deadline) < FOREVER
end

local function is_ready(id)
  for _, list in pairs(LISTS) do
    if call('LPOS', list, id) then
      return true
    end
  end
  return false
end

if what == 'balance' then
  -- More jobs than places, or more places than jobs.
  local places = -call('HLEN', K.tomb) + call('HLEN', K.active) + call('HLEN', K.records)
  for _, key in ipairs({ K.scheduled, K.retry, K.parked, K.dead }) do
    places = places + call('ZCARD', key)
  end
  for _, list in pairs(LISTS) do
    places = places + call('LLEN', list)
  end
  return call('HLEN', K.jobs) - places
elseif what == 'lanes' then
  for i = 3, #ARGV do
    if call('HEXISTS', K.workers, ARGV[i]) == 1 and not has_lease(ARGV[i]) then
      found(ARGV[i])
      if repairs then
        call('ZADD', K.leases, ms(now), ARGV[i])
      end
    end
  end
elseif what == 'active' then
  for i = 3, #ARGV, 2 do
    local id, tag = ARGV[i], ARGV[i + 1]
    local worker = worker_of(tag)
    if call('HGET', K.active, id) == tag
      and not (worker and (call('HEXISTS', K.workers, worker) == 1 or call('SISMEMBER', K.fenced, worker) == 1)) then
      found(id)
      if repairs and worker then
        call('SADD', K.fenced, worker)
      elseif repairs then
        call('HDEL', K.active, id)
        push({ id }, true)
      end
    end
  end
elseif what == 'unplaced' then
  for i = 3, #ARGV do
    if not is_placed(ARGV[i]) then
      found(ARGV[i])
    end
  end
  return broken
elseif what == 'strays' then
  for i = 3, #ARGV do
    local id = ARGV[i]
    if call('HEXISTS', K.jobs, id) == 1 and not is_placed(id) and not is_ready(id) then
      found(id)
    end
  end
  if repairs then
    local sound = {}
    for _, id in ipairs(broken) do
      if is_id(id) and call('HSTRLEN', K.jobs, id) > 0 then
        sound[#sound + 1] = id
      else
        strip({ id })
        call('HDEL', K.jobs, id)
      end
    end
    if push(sound, false) then
      hint()
    end
  end
elseif what == 'names' then
  -- Parked jobs that no longer say of which task they are: nobody could tell that they are parked. ARGV: members.
  for i = 3, #ARGV do
    local task, id = string.match(ARGV[i], '^([^%z]*)%z(.*)$')
    if id and call('HEXISTS', K.jobs, id) == 1 and call('ZSCORE', K.parked, ARGV[i]) and not is_placed(id) then
      found(id)
      if repairs then
        call('HSET', K.notes, id, task)
      end
    end
  end
else
  -- Ids that wait in one place, named by its key.
  local key = ({ ready0 = K.ready0, ready1 = K.ready1, ready2 = K.ready2, ready3 = K.ready3, suspect = K.suspect, scheduled = K.scheduled,
    retry = K.retry, dead = K.dead, parked = K.parked, active = K.active })[what]
  local list = string.match(what, '^ready%d$') or what == 'suspect'
  for i = 3, #ARGV do
    local member = ARGV[i]
    local id = what == 'parked' and string.match(member, '%z(.*)$') or member
    if id and call('HEXISTS', K.jobs, id) == 0 and not (list and call('HEXISTS', K.tomb, id) == 1) then
      found(id)
      if repairs then
        if list then
          call('LREM', key, 1, member)
        elseif what == 'active' then
          call('HDEL', key, member)
        else
          call('ZREM', key, member)
        end
      end
    end
  end
end
if repairs then
  count('repaired', #broken)
end
return broken
