-- scheduled or retry -> the tail of ready, before their time. ARGV: ids.
--- include script/prelude, script/clock, script/bits, doors/back, script/first_due

local answers, early = {}, {}
for at, id in ipairs(ARGV) do
  answers[at] = 0
  if call('ZSCORE', K.scheduled, id) or call('ZSCORE', K.retry, id) then
    unwait(id)
    early[#early + 1] = id
    answers[at] = 1
  end
end
if back(early, false) then
  hint()
end
look_due()
return answers
