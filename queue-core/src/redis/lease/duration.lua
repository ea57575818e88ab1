-- The *duration* of a lease is the length with which its lane was registered. A renewal never
-- exceeds it. A deadline that is further ahead was therefore written before the clock was set back,
-- or by a server whose clock was ahead.

-- Returns the duration if the deadline of a lane is further ahead than that. Unknown for a lane
-- without a duration.
local function is_deadline_too_late(lane, deadline)
  local duration = whole(call('ZSCORE', K.durations, lane) or '')
  return duration > 0 and whole(deadline) < FOREVER and whole(deadline) > now + duration and duration
end
