-- Transitions, for watchers of the queue: from which state a job goes to which. The bit `v` is set
-- while a watcher may follow, and `followed` in `meta` has the time until which one follows. A door
-- that removes a job notes its old state (`left`), and one that adds it stores the transition
-- (`entered`). `transitions` has the last transitions in pieces, by the number of the last one of
-- each. A piece is a packed list of that number, the time, the state and the reason, then of each
-- job its id, task, state before, and failed attempts. An error here never stops a script: if
-- another program has replaced the key, it is left alone, and its transitions are lost.
--- include script/tools, script/has

-- The old states of jobs, how many transitions this script has written, and whether a watcher
-- follows. Envelopes of jobs that are not stored yet.
local was, n_recorded, is_marked, envelopes = {}, 0, nil, {}
local is_over = { done = true, dead = true, cancelled = true, expired = true }

-- How many pieces go at once, and how many this script has removed.
local FORGOTTEN_AT_ONCE, forgotten = 200, 0

-- No watcher follows any more: removes the stored transitions, a bounded number of pieces at a
-- time, and clears the bit together with the last piece.
local function forget_transitions()
  local some = redis.pcall('ZRANGE', K.transitions, '0', ms(FORGOTTEN_AT_ONCE - 1))
  if not some.err then
    many('ZREM', K.transitions, some)
    forgotten = forgotten + #some
    if #some < FORGOTTEN_AT_ONCE and bits and string.find(bits, 'v', 1, true) then
      bits = string.gsub(bits, 'v', '')
      call('HSET', K.meta, 'bits', bits)
    end
  end
end

local function is_followed()
  if is_marked == nil then
    -- A mark that is too far in the future was not set by a watcher.
    local upto = whole(call('HGET', K.meta, 'followed') or '')
    is_marked = upto > now and upto <= now + C.followed_ms
    if not is_marked then
      forget_transitions()
    end
  end
  return is_marked
end

-- Jobs have left this state.
local function left(ids, state)
  if has('v') then
    for _, id in ipairs(ids) do
      was[id] = state
    end
  end
end

local function task_of(envelope)
  return envelope and byte(envelope, 1) == 1 and string.sub(envelope, 3, 2 + (byte(envelope, 2) or 0)) or ''
end

-- At most 200 jobs have entered this state. Every transition gets a number; those beyond
-- `transitions_at_once` of one script are not stored.
local function write_transitions(ids, state, why)
  local bodies, attempts = call('HMGET', K.jobs, unpack(ids)), has('f') and redis.pcall('HMGET', K.attempts, unpack(ids)) or {}
  local piece, n = { '', ms(now), state, string.sub(why or '', 1, C.reason_bytes) }, 0
  for at, id in ipairs(ids) do
    local before = was[id] or (state == 'active' or state == 'removed') and 'ready' or ''
    was[id] = state
    if before ~= state and not (state == 'removed' and is_over[before]) then
      n = n + 1
      if n_recorded + n <= C.transitions_at_once then
        piece[4 * n + 1], piece[4 * n + 2], piece[4 * n + 3], piece[4 * n + 4] = id, task_of(bodies[at] or envelopes[id]), before, attempts[at] or '0'
      end
    end
  end
  if n == 0 then
    return
  end
  local last = whole(call('HGET', K.meta, 'transitions') or '')
  call('HSET', K.meta, 'transitions', ms(last + n))
  n_recorded = n_recorded + n
  if #piece > 4 then
    local upto = last + #piece / 4 - 1
    piece[1] = ms(upto)
    local stored = redis.pcall('ZADD', K.transitions, piece[1], cmsgpack.pack(piece))
    if type(stored) == 'number' and upto > C.transitions_kept and math.floor(last / 500) < math.floor(upto / 500) then
      many('ZREM', K.transitions, call('ZRANGE', K.transitions, '-inf', ms(upto - C.transitions_kept), 'BYSCORE', 'LIMIT', '0', '1000'))
    end
  end
end

-- Jobs have entered this state. Call this before anything of them is removed.
local function entered(ids, state, why)
  if #ids == 0 or not has('v') or not is_followed() then
    return
  end
  -- Large envelopes are read some at a time.
  local piece = has('l') and 16 or 200
  for from = 1, #ids, piece do
    write_transitions({ unpack(ids, from, math.min(from + piece - 1, #ids)) }, state, why)
  end
end
