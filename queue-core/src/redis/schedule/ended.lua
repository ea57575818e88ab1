-- Records the endings of jobs of schedules. `ticked` has `RUN:SCHEDULE` for each such job that has
-- not ended, or `RUN!SCHEDULE` if the job will be cancelled at its ending. The feature bit is `s`.
-- See `ScheduleState::ended`.
--- include script/tools, script/hint, script/has

-- Jobs that have ended and were to be cancelled. Their lanes are no longer notified.
local was_stopped = {}

local function record_run_end(state, run, how)
  for _, known in ipairs(type(state.o) == 'table' and state.o or {}) do
    if type(known) == 'table' and known[1] == run then
      known[4], known[5] = how, now
    end
  end
end

local function record_schedule_pause(state)
  state.p = ms(state.d) .. ' of its jobs died in a row'
  local events = type(state.e) == 'table' and state.e or {}
  events[#events + 1] = { now, 'paused', 0, 0, state.d }
  while #events > 20 do
    table.remove(events, 1)
  end
  state.e = events
end

-- Updates the state of a schedule when one of its jobs has ended in this state, or is parked.
local function record_tick_end(name, run, how)
  local state = unpacked(call('HGET', K.states, name))
  if not state then
    return
  end
  record_run_end(state, run, how)
  local was_paused = state.p
  if how == 'dead' then
    state.d = whole(state.d) + 1
    if whole(state.x) > 0 and state.d >= whole(state.x) and not state.p then
      record_schedule_pause(state)
      call('ZADD', K.ticks, ms(FOREVER), name)
    end
  elseif how == 'done' then
    state.d = 0
  end
  if state.u == run then
    state.u = nil
    if state.b and not state.p then
      call('ZADD', K.ticks, ms(now), name)
      hint_tick(now)
    end
  end
  call('HSET', K.states, name, cmsgpack.pack(state))
end

-- Records that jobs have ended or are parked. A parked job may still end.
local function record_tick_ends(ids, how)
  if not has('s') or #ids == 0 then
    return
  end
  for from = 1, #ids, PIECE do
    local some = { unpack(ids, from, math.min(from + PIECE - 1, #ids)) }
    for at, entry in ipairs(call('HMGET', K.ticked, unpack(some))) do
      local run, name = string.match(entry or '', '^(%d+)[:!](.*)$')
      if run then
        was_stopped[some[at]] = string.find(entry, '^%d+!') and true or nil
        if how ~= 'parked' then
          call('HDEL', K.ticked, some[at])
        end
        record_tick_end(name, tonumber(run), how)
      end
    end
  end
end

-- Whether a job that leaves its lane has to be cancelled.
local function is_stopped(id)
  return has('s') and string.find(call('HGET', K.ticked, id) or '', '^%d+!') ~= nil
end
