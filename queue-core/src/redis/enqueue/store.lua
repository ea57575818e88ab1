--- include doors/aging, doors/tags, doors/transitions
-- Stores jobs that are ready now: pairs of id and envelope. Returns whether the list was empty
-- before, and the number of jobs.
local function store(from, to, list)
  call('HSET', K.jobs, ARGV[from], LONG, unpack(ARGV, from, to))
  local ids = {}
  for at = from, to, 2 do
    ids[#ids + 1] = ARGV[at]
  end
  record_entered(ids, 'ready')
  start_aging(ids, false)
  if may_have_tags then
    add_tags({ unpack(ARGV, from, to) })
  end
  return call('RPUSH', list, unpack(ids)) == #ids, #ids
end
