-- dead -> ready, with clean counters. ARGV: ids.
--- include script/prelude, script/clock, script/bits, doors/end, doors/back

local answers = {}
local woken = false
for at, id in ipairs(ARGV) do
  answers[at] = 0
  if call('ZSCORE', K.dead, id) then
    exhume(id)
    clear_counts(id)
    woken = back({ id }, false) or woken
    count('requeued', 1)
    answers[at] = 1
  end
end
if woken then
  hint()
end
return answers
