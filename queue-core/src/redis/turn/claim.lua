-- Moves what is due to `ready`, and claims.
--- include script/first_due, doors/back, doors/turns, doors/rise, turn/waits

-- Of jobs that are due again those that come to the head of the line of their group, the last one first: where failures are skipped. The others first.
local function who_comes_first(due_ids)
  local others, first = {}, {}
  for at, stored in ipairs(#due_ids > 0 and call('HMGET', K.grouped, unpack(due_ids)) or {}) do
    if stored and rule_of(group_in(stored)).order == 's' then
      table.insert(first, 1, due_ids[at])
    else
      others[#others + 1] = due_ids[at]
    end
  end
  return others, first
end

local promoted = false
if not paused then
  rise()
end
if has('m') and not paused then
  limits().come_due()
end
if not due or due <= now and not paused then
  if not paused then
    promoted = back(take_due(K.scheduled), false)
    local due_again, first = take_due(K.retry), {}
    if has('g') then
      due_again, first = who_comes_first(due_again)
    end
    promoted = back(due_again, false) or promoted
    promoted = back(first, true) or promoted
  end
  look_due()
end

-- Whether all jobs of the one list that there is are claimed.
local drained = false

-- Parked jobs of groups join the lines of these: they wait for their turn. Gives the others.
local function wait_for_their_groups(task, found, may_suspect, room)
  local others, grouped = {}, {}
  local crashes = has('c') and #found > 0 and call('HMGET', K.crashes, unpack(found))
  for at, stored in ipairs(#found > 0 and call('HMGET', K.grouped, unpack(found)) or {}) do
    if stored and #grouped >= room or stored and crashes and crashes[at] and not may_suspect then
      -- It stays parked.
    elseif stored then
      take_parked(task, found[at])
      table.insert(grouped, 1, found[at])
    else
      others[#others + 1] = found[at]
    end
  end
  back(grouped, true)
  return others
end

-- Claims some of the jobs of a task that were found parked. A suspect is one here too; those that are passed over stay parked.
local function take_some_parked(task, found, may_suspect, room)
  if has('g') then
    found = wait_for_their_groups(task, found, may_suspect, room)
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
    take_parked(task, found[at])
  end
  return may_suspect
end

-- Jobs that are parked under a name: of a task that this worker knows, or of one and releases that could not read them. Where the first ones may not be claimed, others
-- are looked at; the next claim goes on behind these.
local function claim_parked(task, may_suspect)
  local room = wanted - #ids
  local asked = (has('c') or has('g')) and room + 100 or room
  local found = parked_of(task, asked)
  local last = found[#found]
  may_suspect = take_some_parked(task, found, may_suspect, room)
  if asked > room and #found == asked and #ids < wanted and not full then
    local field = 'parked:' .. task
    local behind = call('HGET', K.meta, field)
    asked = wanted - #ids + 500
    found = parked_of(task, asked, behind or last)
    last = #found == asked and found[#found]
    may_suspect = take_some_parked(task, found, may_suspect, wanted - #ids)
    if last then
      call('HSET', K.meta, field, last)
    elseif behind then
      call('HDEL', K.meta, field)
    end
  end
  return may_suspect
end

-- A job that was held by a process that died, or whose process was lost: one at a time. Tombs make a further round necessary; a few, so that the script stays short.
local function claim_suspect()
  local before, all = #ids, wanted
  wanted = before + 1
  for _ = 1, 5 do
    local passed = admit(heads(9, has('t') and 100 or 1), 9)
    take(9, passed)
    if passed == 0 or #ids > before then
      break
    end
  end
  wanted = all
end

-- Jobs at the head of a list. Tombs make a further round necessary; a few, so that the script stays short.
local function claim_ready(list)
  for _ = 1, 5 do
    if #ids >= wanted or full then
      return
    end
    local asked = has('t') and math.max(wanted - #ids, 100) or wanted - #ids
    local found = heads(list, asked)
    local passed = admit(found, list)
    take(list, passed)
    if #found < asked then
      drained = passed == #found
      return
    end
  end
end

-- Plain jobs and groups in turn. Tombs of suspects hide no job of the lists: at most as many of them as suspects wait.
local function claim_by_turns()
  local plain, wanted_in_all, before = has('t') and math.min(call('LLEN', K.suspect) - call('HLEN', K.tomb), 0) or 0, wanted, #ids
  for _, list in ipairs(ORDER) do
    plain = plain + call('LLEN', LISTS[list])
  end
  local starts, cost, picks, looked_at = choose(wanted - #ids, math.max(plain, 0))
  wanted = before + #starts
  for _, list in ipairs(ORDER) do
    claim_ready(list)
  end
  wanted = wanted_in_all
  if #ids > before then
    local start = starts[#ids - before]
    call('HSET', K.meta, 'plain', ms(start + cost))
    served_at(start)
  end
  if #picks > 0 and not full then
    take_picks(picks)
  elseif #picks > 0 then
    limits().settle_picks(picks, 0, {}, parts_of)
  end
  for _, entry in ipairs(looked_at) do
    review(entry.group)
  end
end

-- Whether a job of a group could start, as far as its rule and its line are concerned.
local function may_serve(group)
  local holder = holder_of_line(group)
  return room_of(group) > 0 and (not holder or is_in_line(holder))
end

-- The same in a queue with limits, until the claim has what it wants, or nothing is left that could start.
local function claim_with_limits()
  for _ = 1, 5 do
    for group in pairs(limits().open_some(wanted - #ids, may_serve)) do
      review(group)
    end
    if call('EXISTS', K.turns) == 1 then
      claim_by_turns()
    else
      for _, list in ipairs(ORDER) do
        claim_ready(list)
      end
    end
    if #ids >= wanted or full or call('EXISTS', K.roomy) == 0 then
      break
    end
  end
  limits().write()
end

if not paused and wanted > 0 then
  local may_suspect = ARGV[7] == '1'
  for at = 9, has('a') and 8 + ARGV[8] or 0 do
    local stays = paused_tasks and paused_tasks[ARGV[at]]
    for _, name in ipairs(stays and {} or { ARGV[at], unpack(readable_by(ARGV[9 + ARGV[8]], ARGV[at])) }) do
      if #ids < wanted and not full then
        may_suspect = claim_parked(name, may_suspect)
      end
    end
  end
  local before = #ids
  if may_suspect and has('c') and #ids < wanted and not full then
    claim_suspect()
    if has('g') and #ids == before and not full then
      claim_suspect_of_group()
    end
  end
  if has('m') and #ids < wanted and not full then
    claim_with_limits()
  elseif has('g') and #ids < wanted and not full and call('EXISTS', K.turns) == 1 then
    claim_by_turns()
  else
    for _, list in ipairs(ORDER) do
      claim_ready(list)
    end
  end
end

local waits = what_waits(drained)
