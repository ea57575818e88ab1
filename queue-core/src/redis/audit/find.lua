-- Finds damage that other programs or bugs of this library have caused. It changes nothing.
-- ARGV[1]    check     the check: a name of `CHECKS` in `audit/checks.lua`, or `all`
-- ARGV[2..]  subjects  names, ids, members or pairs, as the check takes them
-- Returns: the damaged subjects, or the answer that the check describes
-- Errors: FEATURE, SCHEMA
--- include audit/checks

-- The most entries of a queue that one call examines completely.
local FEW = 500

local HASHES = {
  { K.lanes, 'lanes', 'durations' }, { K.unique, 'unique' }, { K.held, 'held' }, { K.keyed, 'keyed' }, { K.ticked, 'ticked' },
  { K.grouped, 'grouped' }, { K.front, 'front' }, { K.chains, 'chains' }, { K.workers, 'records' }, { K.loads, 'records' }, { K.asked, 'records' },
  { K.jobs, 'lost' }, { K.active },
}
local SETS = {
  { K.tags, 'tags' }, { K.holders, 'holders' }, { K.shut, 'shut' }, { K.numbered, 'numbered' }, { K.line, 'unchained', 'line', 'line_doubled' },
  { K.next, 'eligible' }, { K.doubts, 'eligible' }, { K.scheduled, 'scheduled' }, { K.retry, 'retry' }, { K.dead, 'dead' }, { K.parked, 'parked', 'names' },
}

-- All checks at once, for a queue with few entries. Returns the number of findings and of remains.
-- It also returns data that the caller examines: the lanes, the records of workers, the index of
-- tags, and the envelopes of jobs with tags. False: the queue has more entries.
function CHECKS.all()
  local entries, leftovers = 0, 0
  for _, source in ipairs(HASHES) do
    entries = entries + call('HLEN', source[1])
  end
  for _, source in ipairs(SETS) do
    entries = entries + call('ZCARD', source[1])
  end
  for _, list in pairs(READY) do
    entries = entries + call('LLEN', list)
  end
  if entries > FEW or has('l') then
    return false
  end
  tidy = function()
    leftovers = leftovers + 1
  end
  local function check(what, at)
    subjects = at
    CHECKS[what]()
  end
  for digit, list in pairs(READY) do
    check(digit == 9 and 'suspect' or 'ready' .. digit, { '0', '-1' })
    ready[digit] = call('LRANGE', list, '0', '-1')
  end
  for _, source in ipairs(HASHES) do
    for at = 2, #source do
      check(source[at], call('HKEYS', source[1]))
    end
  end
  for _, source in ipairs(SETS) do
    for at = 2, #source do
      check(source[at], call('ZRANGE', source[1], '0', '-1'))
    end
  end
  check('active', call('HGETALL', K.active))
  check('asleep', { '', FEW })
  for _ = 1, #missing_bits() do
    report_finding('')
  end
  if needed_bits() ~= bits then
    tidy()
  end
  local tagged = {}
  for _, id in ipairs(call('HKEYS', K.jobs)) do
    local envelope = call('HGET', K.jobs, id)
    if string.find(envelope, '\161g', 1, true) then
      tagged[#tagged + 1], tagged[#tagged + 2] = id, envelope
    end
  end
  return { #broken, leftovers, call('HKEYS', K.lanes), call('HGETALL', K.workers), call('ZRANGE', K.tags, '0', '-1'), tagged }
end

local answer = CHECKS[ARGV[1]]()
if answer == nil then
  return broken
end
return answer
