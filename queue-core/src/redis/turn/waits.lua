--- include doors/suspects

-- The lists of priorities that may exist.
local ORDER = has('p') and { 0, 1, 2, 3 } or { 2 }
-- Whether no further group has a job for this lane.
local served_all = false

-- The kinds of waiting work: 1 for more jobs, plus 2 for suspects. `drained`: the list of normal
-- priority is empty.
local function waiting_work(drained)
  if paused then
    return 0
  end
  local more, suspects = 0, 0
  if has('p') then
    more = call('EXISTS', K.ready0, K.ready1, K.ready2, K.ready3) > 0 and 1 or 0
  elseif not drained then
    more = call('EXISTS', K.ready2)
  end
  if has('m') and more == 0 then
    more = ((not served_all or full or limits().looked > C.limit_step) and call('EXISTS', K.next) or 0) + call('EXISTS', K.roomy) > 0 and 1 or 0
  elseif has('g') and more == 0 and not served_all then
    more = call('EXISTS', K.next)
  end
  if has('c') then
    suspects = 2 * call('EXISTS', K.suspect)
    if has('g') and suspects == 0 and call('EXISTS', K.doubts) == 1 then
      -- A search of this turn that was complete and found no suspect is not repeated. A search that
      -- was incomplete proves nothing: the next claim continues it.
      local found = may_be_doubted == nil and next_suspect(false)
      suspects = (found or may_be_doubted) and 2 or 0
    end
  end
  return more + suspects
end
