-- R7, sweep. ARGV: most crashes, window, delay, then triples of an id, its tag, and '1' if it is charged a crash, '0' if it
-- goes free, 'f' if it does because its process lives, whose lane was forgotten. The jobs of a lane that has left go free.
--- include script/prelude, script/clock, script/bits, doors/settle, doors/end, doors/back

local released, charged, buried, forgotten, freed, retried, stopped = {}, {}, {}, 0, 0, 0, 0
local window, delay = tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 4, #ARGV, 3 do
  local id, tag = ARGV[i], ARGV[i + 1]
  if call('HGET', K.active, id) == tag and call('HEXISTS', K.lanes, lane_of(tag) or '') == 0 then
    settle({ id })
    local leaves = redis.pcall('SISMEMBER', K.leaving, lane_of(tag) or '') == 1
    if is_stopped(id) then
      end_unrun(id, 'cancelled', C.stopped)
      stopped = stopped + 1
    elseif ARGV[i + 2] ~= '1' or leaves then
      freed = freed + 1
      if leaves then
        count_release(id)
      end
      if not superseded(id) then
        table.insert(released, id)
      end
      forgotten = forgotten + (ARGV[i + 2] == 'f' and 1 or 0)
    else
      local stored = call('HGET', K.crashes, id) or ''
      local crashes, first = string.match(stored, '^(%d+):(%d+)$')
      crashes, first = tonumber(crashes or '0'), tonumber(first or '0')
      if crashes == 0 or now - first > window then
        crashes, first = 0, now
      end
      crashes = crashes + 1
      put_rare('c', K.crashes, id, ms(crashes) .. ':' .. ms(first))
      add_failure(id, 'the process that ran it died, or lost the broker')
      if crashes >= tonumber(ARGV[1]) then
        end_dead(id, 'crashed')
        table.insert(buried, id)
      else
        retried = retried + 1
        if not superseded(id) then
          table.insert(charged, ms(after(delay * crashes)))
          table.insert(charged, id)
        end
      end
    end
  end
end
-- Backwards, as each goes to the head.
local backwards = {}
for i = #released, 1, -1 do
  table.insert(backwards, released[i])
end
back(backwards, true)
wait(K.retry, charged)
if #released > 0 or opened then
  hint()
end
count('reclaimed', freed + retried + #buried + stopped)
count('crashed', retried + #buried)
count('forgotten', forgotten)
return { freed, retried, buried }
