-- A queue is *plain* while nothing is out of the ordinary in it: it is not paused, and its jobs are of normal priority, were not
-- snoozed, have not crashed, and may start now or wait for their time. Turns do with a few keys then, and two more if any of the
-- jobs has failed. `meta` says until when it is plain, until the first job is due that waits, or
-- FOREVER; and whether there are failures. It says so from when somebody has looked until somebody is about to change it: of what
-- is not sure it says nothing.

local function note_plain(until_ms, failed)
  if until_ms then
    call('HSET', K.meta, 'plain', ms(until_ms), 'failed', failed and '1' or '0')
  else
    call('HDEL', K.meta, 'plain')
  end
end

-- From this time on a job is due.
local function plain_until(at)
  local noted = call('HGET', K.meta, 'plain')
  if noted and at < whole(noted) then
    note_plain(at)
  end
end
