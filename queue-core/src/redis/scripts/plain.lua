-- A queue is *plain* while nothing is out of the ordinary in it: it is not paused, none of its jobs was large, and all of them
-- are of normal priority, have not failed, and may start now or wait for their time. Turns do with a few keys then. `meta` says until
-- when it is: until the first job is due that waits, or FOREVER. It says so from when somebody has looked until somebody is about to
-- change it: of what is not sure it says nothing.

local function note_plain(until_ms)
  if until_ms then
    call('HSET', K.meta, 'plain', ms(until_ms))
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
