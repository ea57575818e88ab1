-- Removes jobs from `active` for any ending: ack, nack, snooze, repeat, return, park, reclaim,
-- cancel. It releases what a job holds only while it runs. The caller has checked the receipts, and
-- calls `end` or `back` next.
--- include doors/groups, doors/transitions
local function settle(ids)
  call('HDEL', K.active, unpack(ids))
  left(ids, 'active')
  if has('g') then
    give_slots_back(ids)
  end
end
