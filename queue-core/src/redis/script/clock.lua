-- The broker's clock, in microseconds and in milliseconds: read once, and then the same for the
-- whole script.
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
