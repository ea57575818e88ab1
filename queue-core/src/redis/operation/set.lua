-- Starts an operation, hands it to a runner, or stops it. See `broker/operation/mod.rs`.
--
-- Inputs
--   id;
--   'start', kind, total, runner or '-', and what is said of it;
--   'take', runner, '1' if it need not wait for the lease of the one before;
--   or 'stop'.
-- Output
--   'NOBODY', or 'DONE', 'OTHER' or 'UNDERWAY' with an id and the operation as it is stored.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, operation/stored

local id, deed = ARGV[1], ARGV[2]
local of = operation_of(id)

-- Another operation that is under way, if there is one. The oldest that have ended go.
local function other_under_way()
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
  local other, known = other_under_way()
  if other then
    return { 'UNDERWAY', other, known.stored }
  end
  local time = ms(now)
  of = {
    kind = ARGV[3], state = 'running', step = '0', started = time, stepped = time, ended = '0', total = ARGV[4], examined = '0', changed = '0', skipped = '0', failed = '0',
    runner = ARGV[5], position = '-', said = ARGV[6], problem = '',
  }
  put_operation(id, of)
  if not head[1] then
    call('HSET', K.meta, 'schema', C.schema)
  end
elseif not of then
  return { 'NOBODY' }
elseif deed == 'take' then
  local is_mine, stepped = of.runner == ARGV[3], whole(of.stepped)
  local is_left = of.runner == '-' or ARGV[4] == '1' or stepped + C.operation_lease <= now or stepped > now
  if of.state ~= 'running' or not (is_mine or is_left) then
    return { 'OTHER', id, of.stored }
  end
  -- Also for the one who has it: a step of before that comes late is none of the next ones.
  of.runner, of.step, of.stepped = ARGV[3], plus(of.step, 1), ms(now)
  put_operation(id, of)
elseif deed == 'stop' and of.state == 'running' then
  of.state, of.ended = 'stopped', ms(now)
  put_operation(id, of)
end
return { 'DONE', id, of.stored }
