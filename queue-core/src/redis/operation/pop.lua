-- Removes jobs at the heads of the lists. It needs no tombstones.
--- include doors/end, doors/ready, doors/aging, people/update_due_and_hint

-- The time at which a job was enqueued, from its envelope; 0 if unknown.
local function enqueued_at(envelope)
  local time = 0
  if #envelope >= 9 and byte(envelope) == 1 then
    local at = 3 + byte(envelope, 2)
    for place = at, at + 5 do
      time = time * 256 + (byte(envelope, place) or 0)
    end
  end
  return time
end

-- Sorts the ids at the head of a list: jobs to remove, and jobs that were enqueued later or have
-- failed since. An id with a tombstone, or whose job is elsewhere, is only removed from the list.
local function sort_by_age(ids, list, upto)
  local gone, stay = {}, {}
  local bodies, errors = call('HMGET', K.jobs, unpack(ids)), has('f') and call('HMGET', K.errors, unpack(ids)) or {}
  local places = {
    call('HMGET', K.active, unpack(ids)), call('HMGET', K.records, unpack(ids)), call('HMGET', K.notes, unpack(ids)),
    call('ZMSCORE', K.scheduled, unpack(ids)), call('ZMSCORE', K.retry, unpack(ids)), call('ZMSCORE', K.dead, unpack(ids)),
  }
  for at, id in ipairs(ids) do
    local is_here = bodies[at]
    for _, place in ipairs(places) do
      is_here = is_here and not place[at]
    end
    if not (has('t') and remove_tombstone(id, list)) and is_here then
      local failures = errors[at] and unpacked_pairs(errors[at]) or {}
      local failed = failures[#failures] and whole(failures[#failures][1]) or 0
      local into = math.max(enqueued_at(bodies[at]), failed) > upto and stay or gone
      into[#into + 1] = id
    end
  end
  return gone, stay
end

-- Removes jobs that were enqueued until then. Returns how many, and whether there may be more.
local function remove_oldest_jobs(upto)
  local removed, room = 0, has('l') and 64 or C.popped
  for _, list in ipairs({ 9, 0, 1, 2, 3 }) do
    local ids = room > 0 and peek_heads(list, room) or {}
    if #ids > 0 then
      local gone, stay = sort_by_age(ids, list, upto)
      if #stay < #ids then
        pop_heads(list, #ids)
        put_back(list, stay)
        if has('o') then
          stop_aging(gone)
        end
        end_deleted(gone)
        for _, id in ipairs(gone) do
          free_id(id)
        end
        room = room - #ids
      end
      removed = removed + #gone
    end
  end
  update_due_and_hint()
  return removed, room <= 0
end
