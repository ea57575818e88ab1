-- R13. ARGV: ids. Answers: 0 there is none, 1 cancelled, 2 cancelled while active.
note_plain(nil)
local answers = {}
-- What each worker has to hear, packed once.
local notes = {}

for at, id in ipairs(ARGV) do
  local tag = call('HGET', K.active, id)
  local answer = 0
  if tag then
    call('HDEL', K.active, id)
    local worker = worker_of(tag)
    if worker and call('HEXISTS', K.workers, worker) == 1 then
      local gone = notes[worker] or unpacked_pairs(call('HGET', K.gone, worker))
      if #gone < 500 then
        table.insert(gone, { id, string.match(tag, '(%d+)$') })
        notes[worker] = gone
      end
    end
    answer = 2
  elseif call('HEXISTS', K.jobs, id) == 1 and call('HEXISTS', K.records, id) == 0 and not call('ZSCORE', K.dead, id) then
    if call('ZREM', K.scheduled, id) == 0 and call('ZREM', K.retry, id) == 0 then
      local task = call('HGET', K.notes, id)
      if task then
        call('ZREM', K.parked, task .. '\0' .. id)
        call('HDEL', K.notes, id)
      else
        entomb(id)
      end
    end
    answer = 1
  end
  if answer > 0 then
    keep_one(id, 'cancelled', 86400000, '')
    call('HDEL', K.crashes, id)
    free_id(id)
    count('cancelled', 1)
  end
  answers[at] = answer
end
for worker, gone in pairs(notes) do
  call('HSET', K.gone, worker, cmsgpack.pack(gone))
end
return answers
