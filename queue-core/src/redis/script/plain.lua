-- A queue is *plain* while nothing is out of the ordinary in it: it is not paused, and its jobs are of normal priority, and were
-- neither snoozed nor parked, nor cancelled or deleted while they were ready, nor have they crashed. Turns do with a few keys then, and
-- two more if any of the jobs has failed, those included that wait or are dead. `meta` says until when it is plain, that is until the first job
-- is due that waits, or FOREVER; and whether there are failures, or have been a while ago. It says so from when somebody has looked
-- until somebody is about to change it: of what is not sure it says nothing.

local function note_plain(until_ms, failed)
  if until_ms then
    call('HSET', K.meta, 'plain', ms(until_ms), 'failed', failed and '1' or '0')
  else
    call('HDEL', K.meta, 'plain')
  end
end

-- From this time on a job is due.
local function plain_at_most_until(at)
  local noted = call('HGET', K.meta, 'plain')
  if noted and at < whole(noted) then
    call('HSET', K.meta, 'plain', ms(at))
  end
end
