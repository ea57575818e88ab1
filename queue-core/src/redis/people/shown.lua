-- All data of a job, or false. The list has: state, envelope, priority, attempts, crashes, snoozes,
-- time, receipt, failures, reason or note or the name under which the job is parked, result, the
-- time until which the job is kept or parked as unreadable, the stored unique key, the stored
-- group, the time of the next rise, and the number and the last time of returns.

-- The size of the unbounded fields in bytes: envelope, errors and result.
local function bytes_of(job)
  return #job[2] + #job[9] + #job[11]
end

local function read_job(id)
  local body = call('HGET', K.jobs, id)
  if not body then
    return false
  end
  local record = call('HGET', K.records, id)
  if record then
    local kept = unpacked(record) or {}
    for name, default in pairs({ s = 'done', p = '2', a = '0', z = '0', e = '', f = '', n = '', r = '', u = '', q = '', g = '', o = '', k = '0' }) do
      kept[name] = type(kept[name]) == 'string' and kept[name] or default
    end
    local crashes = string.match(kept.k, '^%d+') or '0'
    return { kept.s, body, kept.p, kept.a, crashes, kept.z, kept.e, '', kept.f, kept.n, kept.r, kept.u, kept.q, kept.g, '', kept.o }
  end
  local receipt = call('HGET', K.active, id)
  local note = call('HGET', K.notes, id)
  local key = call('HGET', K.keyed, id)
  local state, when, till = 'ready', '', ''
  if receipt then
    state = 'active'
  else
    for name, place in pairs({ scheduled = K.scheduled, retry = K.retry, dead = K.dead }) do
      local score = call('ZSCORE', place, id)
      if score then
        state, when = name, ms(whole(score))
      end
    end
    if state == 'ready' and note then
      state, till = 'parked', call('ZSCORE', K.unreadable, id) or ''
    end
    local due_at, waits = string.match(state == 'ready' and key and call('HGET', K.held, string.sub(key, 1, 16)) or '', '^(%d+):(.*)$')
    if waits == id then
      state, when = 'held', due_at
    end
  end
  return {
    state, body, call('HGET', K.priority, id) or '2', call('HGET', K.attempts, id) or '0',
    string.match(call('HGET', K.crashes, id) or '0', '^%d+') or '0', call('HGET', K.snoozes, id) or '0', when, receipt or '',
    call('HGET', K.errors, id) or '', (state == 'dead' or state == 'parked') and note or '', '', till, key or '', call('HGET', K.grouped, id) or '',
    state == 'ready' and call('HEXISTS', K.crashes, id) == 0 and call('ZSCORE', K.rising, id) or '',
    call('HGET', K.returned, id) or '',
  }
end
