-- Stores the progress and the log lines that handlers report of their running jobs. It does not run
-- on a full server.
-- ARGV[1]    lane  the name of the lane
-- ARGV[2..]  jobs  for each job:
--     id, claim, attempt;
--     number of its progress or '', its age and packed form;
--     number of the first line, the number of lines, and for each line age, level and text
-- Returns: for each job 1 if it was stored, 0 if its receipt is not valid
-- Errors: BEHIND, FEATURE, FORGOTTEN, SCHEMA
-- Events: hint_progress
--- include script/prelude, script/clock, script/bits, script/guard, script/hint

local lane = ARGV[1]
if call('HEXISTS', K.lanes, lane) == 0 then
  return redis.error_reply('FORGOTTEN ' .. lane)
end
local behind = unknown_to_a_lane('j')
if behind then
  return redis.error_reply('BEHIND ' .. behind)
end

-- Stores the progress unless a later one is stored.
local function store_progress(id, claim, seq, age, packed)
  local known_claim, known_seq = string.match(call('HGET', K.progress, id) or '', '^(%d+):(%d+):')
  if whole(known_claim) < whole(claim) or known_claim == claim and whole(known_seq) < whole(seq) then
    call('HSET', K.progress, id, claim .. ':' .. seq .. ':' .. ms(now - whole(age)) .. ':' .. packed)
  end
end

-- The numbers at the beginning of a log, and the position of its first line.
local function read_log(id, claim)
  local log = call('HGET', K.logs, id) or ''
  local from, to, log_claim, expected, first, missed, lines = string.find(log, '^(%d+):(%d+):(%d+):(%d+):(%d+):')
  if not from then
    return '', 1, 0, 0, 0, 0
  end
  return log, to + 1, log_claim == claim and whole(expected) or 0, whole(first), whole(missed), whole(lines)
end

-- Appends lines that are not stored yet, and removes the oldest ones if there are too many. `at` is
-- the position in ARGV of the age of the first line.
local function append_log(id, claim, attempt, number, n, at)
  local log, from, expected, first, missed, lines = read_log(id, claim)
  missed = missed + math.max(0, number - expected)
  local new = {}
  for skipped = math.max(0, expected - number), n - 1 do
    local place = at + 3 * skipped
    local line = ms(now - whole(ARGV[place])) .. ':' .. ARGV[place + 1] .. ':' .. attempt .. ':' .. ARGV[place + 2]
    new[#new + 1] = string.char(math.floor(#line / 256), #line % 256) .. line
  end
  local body = string.sub(log, from) .. table.concat(new)
  lines, from = lines + #new, 1
  while lines > 0 and (lines > C.log_lines or #body - from + 1 > C.log_bytes) do
    from = from + 2 + byte(body, from) * 256 + (byte(body, from + 1) or 0)
    lines, first = lines - 1, first + 1
    if from > #body then
      lines = 0
    end
  end
  local numbers = { claim, ms(math.max(expected, number + n)), ms(first), ms(missed), ms(lines), string.sub(body, from) }
  call('HSET', K.logs, id, table.concat(numbers, ':'))
end

local answers, at = {}, 2
while at <= #ARGV do
  local id, claim, attempt, seq, number, n = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local is_valid = call('HGET', K.active, id) == lane .. ':' .. claim
  if is_valid then
    set_bit('j')
    if seq ~= '' then
      store_progress(id, claim, seq, ARGV[at + 4], ARGV[at + 5])
    end
    if n > 0 then
      append_log(id, claim, attempt, number, n, at + 8)
    end
    if has('w') and call('ZSCORE', K.watched, id) then
      hint_progress(id)
    end
  end
  answers[#answers + 1] = is_valid and 1 or 0
  at = at + 8 + 3 * n
end
return answers
