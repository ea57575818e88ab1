-- dead -> ready, with clean counters. ARGV: ids.
local answers = {}
local woken = false
for at, id in ipairs(ARGV) do
  if call('ZSCORE', K.dead, id) then
    exhume(id)
    for _, key in ipairs({ K.attempts, K.crashes, K.snoozes }) do
      call('HDEL', key, id)
    end
    woken = push({ id }, false) or woken
    count('requeued', 1)
    answers[at] = 1
  else
    answers[at] = 0
  end
end
if woken then
  hint()
end
return answers
