-- The *duration* of a lease is its length: what its lane was registered with. No renewal lasts
-- longer, so a deadline that lies further ahead was written by a clock that has been put back
-- since, or by a server whose clock was faster.

-- Whether the deadline of a lane lies further ahead than its lease is long. A lane without a
-- duration is not known to be so.
local function is_ahead(lane, deadline)
  local duration = whole(call('ZSCORE', K.durations, lane) or '')
  return duration > 0 and whole(deadline) < FOREVER and whole(deadline) > now + duration and duration
end
