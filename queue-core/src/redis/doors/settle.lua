-- settle: out of active, whatever way: ack, nack, snooze, repeat, return, park, reclaim, cancel.
-- Whatever a job holds only while it runs is given back here. Who calls it has seen that the
-- receipt is the one that it should be, and says next where the jobs go: `end` or `back`.
--- include doors/groups, doors/transitions
local function settle(ids)
  call('HDEL', K.active, unpack(ids))
  left(ids, 'active')
  if has('g') then
    give_slots_back(ids)
  end
end
