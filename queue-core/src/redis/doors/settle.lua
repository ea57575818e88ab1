-- Removes jobs from `active` for any ending: ack, nack, snooze, repeat, return, park, reclaim,
-- cancel. It releases what a job holds only while it runs. The caller has checked the receipts, and
-- calls `end` or `return_jobs` next.
--- include doors/groups, doors/transitions
local function settle(ids)
  call('HDEL', K.active, unpack(ids))
  record_left(ids, 'active')
  if has('g') then
    release_slots(ids)
  end
end
