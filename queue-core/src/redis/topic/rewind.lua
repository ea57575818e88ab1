-- Runs a step of the rewind of a subscription, see `broker/rewind.rs`. A position is the id of the
-- entry before it.
-- ARGV[1]    name       the name of the subscription
-- ARGV[2]    step       one of:
--     look    the position, 'start' for the first of all entries or 'now' for the last; changes
--             nothing
--     begin   that of `look`, then a token, the stored begin, and the token that `look` has
--             returned
--     count   two positions: from and to; changes nothing
--     cancel  a token, the reason or '', and ids of jobs: waiting ones are cancelled
--     forget  a position, and a token
--     end     a token, and the number of forgotten entries
-- ARGV[3..]  arguments  those of the step
-- Returns: '' if there is no such subscription; 'OTHER' if another rewind has taken over; or of the
--   step:
--     look, begin    the new cursor, the old cursor, the first of all entries or '', the number
--                    of removed entries before it, the token of the previous rewind or ''
--     count, forget  the number of entries, the position after them, 1 if there are more
--     cancel         the number of cancelled jobs
--     end            nothing
-- Errors: FEATURE, SCHEMA
-- Events: hint, hint_tick, hint_ended, transitions
--- include script/prelude, script/clock, script/bits, people/remove, people/cancelling, topic/subscription, topic/entry

local name, step, target = ARGV[1], ARGV[2], ARGV[3]
local of = subscription_of(name)
if not of then
  return ''
end

-- The new cursor, and its position if known.
local function rewind_position(asked, first, length, added)
  local last = call('XREVRANGE', K.log, '+', '-', 'COUNT', '1')[1]
  if asked == 'now' or asked ~= 'start' and last and is_behind(asked, last[1]) then
    return last and last[1] or of.cursor, added
  elseif asked == 'start' or not first then
    return '0-0', added - length
  end
  return asked, is_behind(first, asked) and added - length or nil
end

-- Calls a function for each entry after a position, up to another one. Returns the number of
-- entries, the last position, and 1 if there may be more entries.
local function step_through(position, upto, each)
  local passed, size, more = 0, 0, is_behind(upto, position)
  while more and passed < C.trim_step and size < C.max_bytes do
    local asked = entries_to_read(passed, size)
    local entries = call('XRANGE', K.log, '(' .. position, upto, 'COUNT', ms(asked))
    for _, entry in ipairs(entries) do
      local id, _, _, bytes = read_entry(entry)
      each(id)
      passed, size, position = passed + 1, size + bytes, entry[1]
    end
    more = #entries == asked
  end
  return { passed, position, more and 1 or 0 }
end

local before = of.token or of.ended or ''
if step == 'begin' and before ~= ARGV[6] and of.token ~= ARGV[4] then
  -- A late request: the runner has sent it twice, and this rewind has ended or another one has
  -- begun.
  return 'OTHER'
elseif step == 'look' or step == 'begin' then
  local length, added = length_of_log()
  local first = call('XRANGE', K.log, '-', '+', 'COUNT', '1')[1]
  first = first and first[1]
  -- The entries between the cursor and `upto` were read before an earlier rewind, and have not been
  -- read again.
  if not of.upto or is_behind(of.cursor, of.upto) then
    of.upto, of.upto_position = of.cursor, of.position
  end
  of.cursor, of.position = rewind_position(target, first, length, added)
  if step == 'begin' then
    of.token, of.begin = ARGV[4], ARGV[5]
    put_subscription(name, of)
  end
  return { of.cursor, of.upto, first or '', added - length, before }
elseif step == 'count' then
  return step_through(target, ARGV[4], tostring)
elseif step == 'end' and not of.token and of.ended == target then
  -- The request was sent again.
  return { 0, '', 0 }
elseif of.token ~= (step == 'forget' and ARGV[4] or target) then
  return 'OTHER'
elseif step == 'cancel' then
  local cancelled = 0
  for at = 5, #ARGV do
    local id = ARGV[at]
    -- A job that was claimed after it was listed continues.
    if call('HEXISTS', K.active, id) == 0 and cancel_waiting(id, ARGV[4] ~= '' and ARGV[4] or nil) then
      cancelled = cancelled + 1
    end
  end
  update_due_and_hint()
  return { cancelled, '', 0 }
elseif step == 'forget' then
  local answer = step_through(target, of.upto, function(id)
    if not remove_job(id) and call('HEXISTS', K.jobs, id) == 0 then
      free_id(id)
    end
  end)
  update_due_and_hint()
  return answer
end
-- The position is that of the old cursor, minus the entries between.
if not of.position and of.upto_position and is_behind(of.upto, of.cursor) then
  of.position = of.upto_position - whole(ARGV[4])
end
of.token, of.ended = nil, of.token
put_subscription(name, of)
hint()
return { 0, '', 0 }
