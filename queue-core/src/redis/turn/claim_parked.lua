-- Claims jobs of the tasks that this lane resumes.

-- Moves parked jobs of groups to the lines of these groups, where they wait to be served. Returns
-- the other jobs.
local function push_parked_to_groups(task, found, may_suspect, room)
  local others, grouped = {}, {}
  local crashes = has('c') and #found > 0 and call('HMGET', K.crashes, unpack(found))
  for at, stored in ipairs(#found > 0 and call('HMGET', K.grouped, unpack(found)) or {}) do
    if stored and #grouped >= room or stored and crashes and crashes[at] and not may_suspect then
      -- It stays parked.
    elseif stored then
      remove_parked(task, found[at])
      table.insert(grouped, 1, found[at])
    else
      others[#others + 1] = found[at]
    end
  end
  return_to_ready(grouped, true)
  return others
end

-- Claims some of the parked jobs of a task that were found. A parked job may be a suspect too. A
-- job that is skipped stays parked.
local function claim_some_parked(task, found, may_suspect, room)
  if has('g') then
    found = push_parked_to_groups(task, found, may_suspect, room)
  end
  if has('c') and #found > 0 then
    local crashes, fit = call('HMGET', K.crashes, unpack(found)), {}
    for at, id in ipairs(found) do
      if #fit < room and (may_suspect or not crashes[at]) then
        fit[#fit + 1] = id
        may_suspect = may_suspect and not crashes[at]
      end
    end
    found = fit
  end
  for at = 1, admit(found) do
    remove_parked(task, found[at])
  end
  return may_suspect
end

-- Claims jobs that are parked under a name. The name is a task, or a task with the releases that
-- could not read the jobs. If the first jobs may not be claimed, the search continues behind them,
-- and the next claim continues where this search ended.
local function claim_parked(task, may_suspect)
  local room = wanted - #ids
  local asked = (has('c') or has('g')) and room + 100 or room
  local found = parked_ids(task, asked)
  local last = found[#found]
  may_suspect = claim_some_parked(task, found, may_suspect, room)
  if asked > room and #found == asked and #ids < wanted and not full then
    local field = 'parked:' .. task
    local behind = call('HGET', K.meta, field)
    asked = wanted - #ids + 500
    found = parked_ids(task, asked, behind or last)
    last = #found == asked and found[#found]
    may_suspect = claim_some_parked(task, found, may_suspect, wanted - #ids)
    if last then
      call('HSET', K.meta, field, last)
    elseif behind then
      call('HDEL', K.meta, field)
    end
  end
  return may_suspect
end

for at = 9, 8 + ARGV[8] do
  local stays = paused_tasks and paused_tasks[ARGV[at]]
  for _, name in ipairs(stays and {} or { ARGV[at], unpack(readable_by(ARGV[9 + ARGV[8]], ARGV[at])) }) do
    if #ids < wanted and not full then
      may_suspect = claim_parked(name, may_suspect)
    end
  end
end
