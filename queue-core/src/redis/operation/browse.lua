-- Some jobs of a queue, in the order of this server. ARGV: which key, the cursor behind which they are, how many, of whose life the cursor is, and the states that are wanted.
-- Answers: the cursor behind them ('0': that was all), the life of this server, how many were looked at, and pairs of an id and what `shown` gives.
--- include script/prelude, script/life, people/shown

local is_wanted, alive = {}, life()
for at = 5, #ARGV do
  is_wanted[ARGV[at]] = true
end
local key = ({
  jobs = K.jobs, active = K.active, held = K.held, records = K.records, scheduled = K.scheduled, retry = K.retry, dead = K.dead, parked = K.parked,
})[ARGV[1]]
local is_hash = ARGV[1] == 'jobs' or ARGV[1] == 'active' or ARGV[1] == 'held' or ARGV[1] == 'records'
-- A cursor means nothing to another server.
local cursor = ARGV[4] == alive and ARGV[2] or '0'
local next_cursor, items = unpack(call(is_hash and 'HSCAN' or 'ZSCAN', key, cursor, 'COUNT', ARGV[3]))

local answer = { next_cursor, alive, #items / 2 }
for at = 1, #items, 2 do
  local id = items[at]
  if ARGV[1] == 'held' then
    id = string.match(items[at + 1], '^%d+:(.*)$') or ''
  elseif ARGV[1] == 'parked' then
    id = string.match(id, '%z(.*)$') or ''
  end
  local job = shown(id)
  if job and is_wanted[job[1]] then
    answer[#answer + 1], answer[#answer + 2] = id, job
  end
end
return answer
