-- Removes all keys of a queue that nothing uses. Returns what uses it; nothing if they are removed.
--- include script/prelude, script/schema

local used = {}
for _, use in ipairs({
  { 'jobs', K.jobs }, { 'workers', K.lanes }, { 'schedules', K.schedules }, { 'rules of groups', K.rules }, { 'limits', K.limits },
}) do
  if call('EXISTS', use[2]) == 1 then
    used[#used + 1] = use[1]
  end
end
if call('EXISTS', K.pauses) == 1 or call('HGET', K.meta, 'paused') == '1' then
  used[#used + 1] = 'pauses'
end
if call('HEXISTS', K.meta, 'aging') == 1 then
  used[#used + 1] = 'aging'
end
if #used == 0 then
  for _, key in ipairs(KEYS) do
    -- These belong to the topic of the same name.
    if key ~= K.log and key ~= K.topic and key ~= K.subscriptions then
      call('UNLINK', key)
    end
  end
end
return used
