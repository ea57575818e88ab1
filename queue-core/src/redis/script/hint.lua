-- Whoever includes this includes the clock first, if it is to be the same for the whole script.
--- include script/clock

-- Notifies idle workers of work now, or of a job that is due earlier than all others. A hint of
-- work now has its time in microseconds: a worker that has polled since ignores it.
local function hint(at)
  -- It may be lost, so a user without the right to publish is no reason to stop half-way.
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', at and ms(at) or '@' .. ms(micros))
end

-- Tells those who make the ticks of schedules that one is due at this time, before all others.
local function hint_tick(at)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '#' .. ms(at))
end

-- Tells those who wait for the end of a job that it has come.
local function hint_ended(id)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '!' .. id)
end

-- Notifies the watchers of a job that its handler has reported something.
local function hint_progress(id)
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '%' .. id)
end

-- Tells workers that a program watches a job: they bring the results of jobs that are not kept. Or
-- that jobs that run were cancelled: they send a heartbeat at once.
local function hint_watch()
  redis.pcall('SPUBLISH', string.sub(K.meta, 1, -5) .. 'hint', '&')
end
