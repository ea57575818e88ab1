-- Transitions, for watchers of the queue: the old and the new state of a job. The bit `v` is set
-- while a watcher may follow, and `followed` in `meta` has the time until which a watcher follows.
-- A door that removes a job notes its old state (`left`), and a door that adds it stores the
-- transition (`record_entered`). `transitions` has the last transitions in pieces, by the number of
-- the last one of each. A piece is a packed list of that number, the time, the state and the
-- reason, and for each job its id, task, old state and failed attempts. An error here never stops a
-- script. If another program has replaced the key, the key is not changed, and the transitions are
-- lost.
--- include script/tools, script/has

-- The old states of jobs, the number of transitions that this script has written, whether a watcher
-- follows, and the envelopes of jobs that are not stored yet.
local was, n_recorded, is_marked, envelopes = {}, 0, nil, {}
local is_over = { done = true, dead = true, cancelled = true, expired = true }

-- The number of pieces that are removed at once, and the number that this script has removed.
local FORGOTTEN_AT_ONCE, forgotten = 200, 0

-- Removes the stored transitions when no watcher follows. The number of pieces at a time is
-- bounded. The bit is cleared together with the last piece.
local function delete_transitions()
  local some = redis.pcall('ZRANGE', K.transitions, '0', ms(FORGOTTEN_AT_ONCE - 1))
  if not some.err then
    call_in_pieces('ZREM', K.transitions, some)
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
      delete_transitions()
    end
  end
  return is_marked
end

-- Notes the old state of jobs.
local function record_left(ids, state)
  if has('v') then
    for _, id in ipairs(ids) do
      was[id] = state
    end
  end
end

local function task_of(envelope)
  return envelope and byte(envelope, 1) == 1 and string.sub(envelope, 3, 2 + (byte(envelope, 2) or 0)) or ''
end

-- Records that at most 200 jobs have entered this state. Every transition gets a number. One script
-- stores at most `transitions_at_once` of them.
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
      call_in_pieces('ZREM', K.transitions, call('ZRANGE', K.transitions, '-inf', ms(upto - C.transitions_kept), 'BYSCORE', 'LIMIT', '0', '1000'))
    end
  end
end

-- Records that jobs have entered this state. Call this before any data of them is removed.
local function record_entered(ids, state, why)
  if #ids == 0 or not has('v') or not is_followed() then
    return
  end
  -- Large envelopes are read in small pieces.
  local piece = has('l') and 16 or 200
  for from = 1, #ids, piece do
    write_transitions({ unpack(ids, from, math.min(from + piece - 1, #ids)) }, state, why)
  end
end
