-- Moves what is due to `ready`, and claims.
--- include script/first_due, doors/back, turn/waits

local promoted = false
if not due or due <= now and not paused then
  for _, key in ipairs(paused and {} or { K.scheduled, K.retry }) do
    promoted = back(take_due(key), false) or promoted
  end
  look_due()
end

local ORDER = has('p') and { 0, 1, 2, 3 } or { 2 }
-- Whether all jobs of the one list that there is are claimed.
local drained = false

-- Jobs that are parked under a name: of a task that this worker knows, or of one and releases that could not read them. A suspect is one here too; those that are passed over stay parked.
local function claim_parked(task, may_suspect)
  local room = wanted - #ids
  local found = parked_of(task, has('c') and room + 100 or room)
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

-- A job that was held by a process that died, or whose process was lost: one at a time.
local function claim_suspect()
  take(9, admit(heads(9, 1), 9))
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

if not paused and wanted > 0 then
  local may_suspect = ARGV[7] == '1'
  for at = 9, has('a') and 8 + ARGV[8] or 0 do
    for _, name in ipairs({ ARGV[at], unpack(readable_by(ARGV[9 + ARGV[8]], ARGV[at])) }) do
      if #ids < wanted and not full then
        may_suspect = claim_parked(name, may_suspect)
      end
    end
  end
  if may_suspect and has('c') and #ids < wanted and not full then
    claim_suspect()
  end
  for _, list in ipairs(ORDER) do
    claim_ready(list)
  end
end

local waits = what_waits(drained)
