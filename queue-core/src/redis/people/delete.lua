-- Removes jobs that are not active. ARGV: ids.
--- include script/prelude, script/clock, script/bits, doors/end, doors/ready, script/first_due

local answers = {}
for at, id in ipairs(ARGV) do
  answers[at] = 0
  if call('HEXISTS', K.jobs, id) == 1 and call('HEXISTS', K.active, id) == 0 then
    local record = call('HGET', K.records, id)
    if record then
      forget_record(id, record)
    elseif call('ZSCORE', K.dead, id) then
      exhume(id)
    else
      unwait(id)
    end
    end_gone({ id })
    free_id(id)
    answers[at] = 1
  end
end
look_due()
if opened then
  hint()
end
return answers
