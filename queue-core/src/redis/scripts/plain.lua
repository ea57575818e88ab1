-- A queue is *plain* while nothing is out of the ordinary in it: it is not paused, none of its jobs was large, and all of them
-- are of normal priority, have not failed, and may start now. Turns do with a few keys then. `meta` says so from when somebody has
-- looked until somebody is about to change it: of what is not sure it says nothing.

local function note_plain(is_plain)
  if is_plain then
    call('HSET', K.meta, 'plain', '1')
  else
    call('HDEL', K.meta, 'plain')
  end
end
