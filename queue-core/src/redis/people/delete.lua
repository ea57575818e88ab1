-- Removes jobs that are not active. ARGV: ids.
note_plain(nil)
local answers = {}
for at, id in ipairs(ARGV) do
  answers[at] = 0
  if call('HEXISTS', K.jobs, id) == 1 and call('HEXISTS', K.active, id) == 0 then
    local record = call('HGET', K.records, id)
    if record then
      forget_record(id, record)
    elseif call('ZSCORE', K.dead, id) then
      exhume(id)
    elseif call('ZREM', K.scheduled, id) == 0 and call('ZREM', K.retry, id) == 0 then
      local task = call('HGET', K.notes, id)
      if task then
        call('ZREM', K.parked, task .. '\0' .. id)
        call('HDEL', K.notes, id)
      else
        entomb(id)
      end
    end
    strip({ id })
    call('HDEL', K.jobs, id)
    free_id(id)
    answers[at] = 1
  end
end
return answers
