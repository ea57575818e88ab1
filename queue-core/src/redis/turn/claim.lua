-- Moves jobs that are due to `ready`, and claims.
--- include script/first_due, doors/return_jobs, doors/suspects, turn/waits

-- Splits jobs whose retry is due. In a group whose order skips failures, such a job returns to the
-- head of the group line: these are the second list, in reverse order. The first list has the other
-- jobs.
local function split_line_heads(due_ids)
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
if has('o') and not paused then
  --- include doors/raise
  raise_aged_jobs()
end
if has('m') and not paused then
  limits().come_due()
end
if not due or due <= now and not paused then
  if not paused then
    promoted = return_to_ready(pop_due(K.scheduled), false)
    local due_again, first = pop_due(K.retry), {}
    if has('g') then
      due_again, first = split_line_heads(due_again)
    end
    promoted = return_to_ready(due_again, false) or promoted
    promoted = return_to_ready(first, true) or promoted
  end
  update_due()
end

-- Whether the claim took all jobs of the only list.
local drained = false

-- Claims one suspect: a job whose process crashed or lost the broker while it ran. Tombstones may
-- require further rounds. Their number is small, so that the script stays short.
local function claim_suspect()
  local before, all = #ids, wanted
  wanted = before + 1
  for _ = 1, 5 do
    local passed = admit(peek_heads(9, has('t') and 100 or 1), 9)
    pop_heads(9, passed)
    if passed == 0 or #ids > before then
      break
    end
  end
  wanted = all
end

-- Claims jobs at the head of a list. Tombstones may require further rounds. Their number is small,
-- so that the script stays short.
local function claim_ready(list)
  for _ = 1, 5 do
    if #ids >= wanted or full then
      return
    end
    local asked = has('t') and math.max(wanted - #ids, 100) or wanted - #ids
    local found = peek_heads(list, asked)
    local passed = admit(found, list)
    pop_heads(list, passed)
    if #found < asked then
      drained = passed == #found
      return
    end
  end
end

-- The claim starts another round if a round found no job although jobs may wait, or if it parked
-- jobs of paused tasks. The jobs that a round skipped or parked do not hinder the next round. The
-- rounds of a claim cost at most `claim_steps` in total.
local waits, spent, may_suspect = 0, 0, ARGV[7] == '1'
while true do
  local tombstones = has('t') and call('HLEN', K.tombstones) or 0
  if not paused and wanted > 0 then
    if has('a') and spent == 0 then
      --- include turn/claim_parked
    end
    local before = #ids
    if may_suspect and has('c') and #ids < wanted and not full then
      claim_suspect()
      if has('g') and #ids == before and not full then
        claim_suspect_of_group()
      end
    end
    if #ids < wanted and not full and (has('m') or has('g') and call('EXISTS', K.next) == 1) then
      --- include turn/claim_in_rotation
    else
      for _, list in ipairs(ORDER) do
        claim_ready(list)
      end
    end
  end

  waits = waiting_work(drained)
  local parked = {}
  --- include turn/aside
  if #ids >= wanted or full or #parked == 0 and (#ids > 0 or waits == 0 or waits == 2 and not may_suspect) then
    break
  end
  spent = spent + 20 + 4 * #parked + (tombstones > 0 and tombstones - call('HLEN', K.tombstones) or 0) + (may_be_doubted and C.limit_step or 0) + (has('m') and limits().next_round() or 0)
  if spent >= C.claim_steps then
    break
  end
  drained, may_be_doubted = false, nil
end
