-- Pauses. `pauses` has the operator, the time, the reason and the end of each pause of the queue or
-- a task. The pause of a group is stored after its rule. `resumes` has the pauses that end
-- automatically, by their ends: 'q' for the queue, 'g' and a group, 't' and a task. The pause of a
-- task is listed even without an end, at 2^52. The queue has the bit `e` while `resumes` is not
-- empty.
--- include doors/groups, script/rare

local function drop_bit(bit)
  if bits and string.find(bits, bit, 1, true) then
    bits = string.gsub(bits, bit, '')
    call('HSET', K.meta, 'bits', bits)
  end
end

-- Removes the end of a pause. The next turn recomputes when the next pause ends.
local function clear_pause_end(of)
  if has('e') then
    if call('ZREM', K.resumes, of) == 1 then
      call('HDEL', K.meta, 'due')
      due = nil
    end
    if call('EXISTS', K.resumes) == 0 then
      drop_bit('e')
    end
  end
end

-- Changes the rule of a group. `ruled` has the groups with a rule, so that a page of these groups
-- reads no others.
local function set_rule(group, rule)
  if rule == '' then
    call('HDEL', K.rules, group)
    redis.pcall('ZREM', K.ruled, group)
  else
    set_fields(K.rules, { group, rule })
    redis.pcall('ZADD', K.ruled, '0', group)
  end
  rules = nil
  review(group)
end

-- Records the end of a pause. A turn at that time ends the pause.
local function set_pause_end(of, upto)
  set_bit('e')
  call('ZADD', K.resumes, ms(upto), of)
  if upto < FOREVER then
    note_next_due(upto)
    hint(upto)
  end
end

-- Pauses the group of a rate-limited job until a time. A pause that an operator has set keeps its
-- reason, and ends no earlier. Returns false if the job has no group, or if the queue has the
-- largest number of group rules.
local function pause_rate_limited_group(id, upto)
  local place = has('g') and call('HGET', K.grouped, id)
  local group = place and group_in(place) or NO_GROUP
  if group == NO_GROUP then
    return false
  end
  local stored = call('HGET', K.rules, group)
  if not stored and call('HLEN', K.rules) >= C.group_rules then
    return false
  end
  upto = math.min(upto, now + C.longest_closed)
  local rule, since, ends, record = string.match(stored or '', '^([^p]*)p(%d+):(%d*):(.*)$')
  -- Another form means a pause by a rule, which has no end.
  if ends == '' or ends and whole(ends) >= upto or not ends and string.find(stored or '', 'p', 1, true) then
    return true
  elseif not ends or whole(ends) <= now then
    rule, since, record = string.match(stored or '::::', '^[^p]*'), ms(now), C.after_rate_limit
  end
  set_rule(group, table.concat({ rule .. 'p' .. since, ms(upto), record }, ':'))
  set_pause_end('g' .. group, upto)
  return true
end

-- Ends a pause, if there is one.
local function end_pause(of)
  if of == 'q' then
    call('HSET', K.meta, 'paused', '0')
    call('HDEL', K.pauses, of)
    drop_bit('h')
  elseif byte(of) == 103 then -- 'g'
    local group = string.sub(of, 2)
    local rule = string.match(call('HGET', K.rules, group) or '', '^([^p]*)p')
    if rule then
      set_rule(group, rule == '::::' and '' or rule)
    end
  end
  if byte(of) == 116 then -- 't'
    call('HDEL', K.pauses, of)
  end
  clear_pause_end(of)
end
