-- A script that needs one time throughout includes the clock before this fragment.
--- include script/clock

-- Notifies idle workers of jobs that may start now, or of a job that is due before all others. A
-- hint without a due time carries the current time in microseconds: a worker that has polled since
-- then ignores it.
local function hint(at)
  -- A hint may be lost. For this reason a user without the right to publish does not stop the
  -- script.
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', at and ms(at) or '@' .. ms(micros))
end

-- Notifies the processes that make the ticks of schedules that a tick is due at this time, before
-- all others.
local function hint_tick(at)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '#' .. ms(at))
end

-- Notifies the programs that wait for the end of a job.
local function hint_ended(id)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '!' .. id)
end

-- Notifies the watchers of a job that its handler has reported progress or a log line.
local function hint_progress(id)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '%' .. id)
end

-- Notifies workers that a program watches a job, or that running jobs were cancelled. For a watched
-- job, workers submit the result even if the job is not kept. For cancelled jobs, they send a
-- heartbeat at once.
local function hint_lanes()
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '&')
end
