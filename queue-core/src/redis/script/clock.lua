-- The broker's clock, in microseconds and in milliseconds. It is read once, so the whole script
-- uses the same time.
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
