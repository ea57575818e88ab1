-- Starts an operation, gives it to a runner, or stops it. See `broker/operation/mod.rs`.
-- ARGV[1]  id       the id of the operation
-- ARGV[2]  deed     'start', 'take' or 'stop'
-- ARGV[3]  kind     'start': the kind of the operation
-- ARGV[3]  runner   'take': the runner
-- ARGV[4]  total    'start': the number of jobs
-- ARGV[4]  at_once  'take': '1' if it does not wait for the lease of the previous runner
-- ARGV[5]  runner   'start': the runner or '-'
-- ARGV[6]  said     'start': the description of the operation
-- Returns: 'NONE'; or 'DONE', 'OTHER' or 'UNDERWAY' with an id and the stored operation
-- Errors: FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, operation/stored

local id, deed = ARGV[1], ARGV[2]
local of = operation_of(id)

-- The other running operation, if there is one. Deletes the oldest operations that have ended.
local function running_operation()
  local ended = {}
  for _, other in ipairs(call('HKEYS', K.operations)) do
    local known = operation_of(other)
    if known and known.state == 'running' then
      return other, known
    end
    ended[#ended + 1] = { other, known and whole(known.started) or 0 }
  end
  table.sort(ended, function(one, another)
    return one[2] > another[2] or one[2] == another[2] and one[1] > another[1]
  end)
  for at = C.operations_kept, #ended do
    call('HDEL', K.operations, ended[at][1])
  end
end

if deed == 'start' and not of then
  local other, known = running_operation()
  if other then
    return { 'UNDERWAY', other, known.stored }
  end
  local time = ms(now)
  of = {
    kind = ARGV[3], state = 'running', step = '0', started = time, stepped = time, ended = '0', total = ARGV[4], examined = '0', changed = '0', skipped = '0', failed = '0',
    runner = ARGV[5], position = '-', texts = ARGV[6], problem = '',
  }
  put_operation(id, of)
  if not head[1] then
    call('HSET', K.meta, 'schema', C.schema)
  end
elseif not of then
  return { 'NONE' }
elseif deed == 'take' then
  local is_mine, stepped = of.runner == ARGV[3], whole(of.stepped)
  local is_left = of.runner == '-' or ARGV[4] == '1' or stepped + C.operation_lease <= now or stepped > now
  if of.state ~= 'running' or not (is_mine or is_left) then
    return { 'OTHER', id, of.stored }
  end
  -- The step number grows even if the runner is the same. Otherwise a late request of an earlier
  -- step could count as the next step.
  of.runner, of.step, of.stepped = ARGV[3], add_to_text(of.step, 1), ms(now)
  put_operation(id, of)
elseif deed == 'stop' and of.state == 'running' then
  of.state, of.ended = 'stopped', ms(now)
  put_operation(id, of)
end
return { 'DONE', id, of.stored }
