-- The other endings of a turn.
--- include doors/return_jobs

local woken = false
local retries, later = {}, {}
for at = 0, others - 1 do
  local i = others_from + 5 * at
  local claim, id, kind, a, b = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if call('HGET', K.active, id) ~= lane .. ':' .. claim then
    table.insert(stale, at)
    answered[id .. ':' .. claim] = true
  else
    settle({ id })
    local stays = kind == 'bury' or kind == 'cancel' or kind == 'expire'
    if not stays and is_stopped(id) then
      kind, a = 'cancel', C.stopped
    end
    local ran = kind ~= 'return' and kind ~= 'park' and kind ~= 'unreadable'
    if has('m') and not ran and (kind ~= 'return' or a == '') then
      -- The job has not started.
      limits().refund(id)
    end
    if has('c') and ran then
      -- The process has survived this run.
      call('HDEL', K.crashes, id)
    end
    if has('a') and ran then
      -- The release has read the job.
      delete_unreadable({ id })
    end
    if kind == 'nack' then
      increment_count('f', K.attempts, id)
      add_failure(id, b)
      if not cancel_if_superseded(id) then
        table.insert(retries, ms(time_after_delay(a)))
        table.insert(retries, id)
      end
      count('failed', 1)
    elseif kind == 'snooze' then
      increment_count('z', K.snoozes, id)
      if not cancel_if_superseded(id) then
        table.insert(later, ms(time_after_delay(a)))
        table.insert(later, id)
      end
      count('snoozed', 1)
    elseif kind == 'limited' then
      -- Counted in the field of the snoozes, above its lower 32 bits.
      increment_count('z', K.snoozes, id, 4294967296)
      count('snoozed', 1)
      local closed = time_after_delay(a) > now and (limits().close(id, time_after_delay(a), b) or b == '' and pause_rate_limited_group(id, time_after_delay(a)))
      if cancel_if_superseded(id) then
        -- The job has ended.
      elseif closed or time_after_delay(a) <= now then
        woken = return_to_ready({ id }, true) or woken
      else
        table.insert(later, ms(time_after_delay(a)))
        table.insert(later, id)
      end
    elseif kind == 'repeat' then
      for _, key in ipairs({ K.attempts, K.returned, K.errors }) do
        call('HDEL', key, id)
      end
      clear_snoozes(id, true)
      if cancel_if_superseded(id) then
        a = ''
      elseif a == '0' then
        woken = return_to_ready({ id }, false) or woken
      else
        table.insert(later, ms(time_after_delay(a)))
        table.insert(later, id)
      end
      count('repeated', 1)
    elseif kind == 'bury' then
      if b ~= '' then
        increment_count('f', K.attempts, id)
        add_failure(id, string.sub(b, 2))
        count('failed', 1)
      end
      end_dead(id, a)
    elseif kind == 'cancel' then
      end_without_run(id, 'cancelled', a)
    elseif kind == 'expire' then
      end_without_run(id, 'expired')
    elseif kind == 'park' then
      if not cancel_if_superseded(id) then
        park_job(id, a)
        woken = true
      end
    elseif kind == 'unreadable' then
      add_failure(id, b)
      if not cancel_if_superseded(id) then
        park_unreadable(id, a)
        woken = true
      end
    else
      if a == 's' then
        count_return(id)
      end
      woken = not cancel_if_superseded(id) and return_to_ready({ id }, true) or woken
      count('returned', 1)
    end
  end
end
store_waiting(K.retry, retries)
store_waiting(K.scheduled, later)

if #stale > 0 or next(was_stopped) then
  -- The lane has submitted endings for these jobs. It no longer needs the notes about them in
  -- `gone`.
  local noted = call('HGET', K.gone, lane)
  local left = {}
  for _, note in ipairs(noted and unpacked_pairs(noted) or {}) do
    if not answered[note[1] .. ':' .. note[2]] and not was_stopped[note[1]] then
      table.insert(left, note)
    end
  end
  if #left > 0 then
    call('HSET', K.gone, lane, cmsgpack.pack(left))
  elseif noted then
    call('HDEL', K.gone, lane)
  end
end
