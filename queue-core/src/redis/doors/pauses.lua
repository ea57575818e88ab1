-- Pauses. `pauses` has who paused the queue or a task, when, why and until when; the same of a
-- group stands behind its rule. `resumes` has what goes on by itself, by the time at which it does:
-- 'q' for the queue, 'g' and a group, 't' and a task; a task is there without an end, too, at 2^52.
-- While it has any, the queue has the bit for that.
--- include doors/groups, script/rare

local function drop_bit(bit)
  if bits and string.find(bits, bit, 1, true) then
    bits = string.gsub(bits, bit, '')
    call('HSET', K.meta, 'bits', bits)
  end
end

-- Removes the end of a pause. The next turn recomputes when the next pause ends.
local function forget_end(of)
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

-- The rule of a group is another one from now on. `ruled` has the groups with a rule, so that a
-- page of them reads no others.
local function set_rule(group, rule)
  if rule == '' then
    call('HDEL', K.rules, group)
    redis.pcall('ZREM', K.ruled, group)
  else
    put_all(K.rules, { group, rule })
    redis.pcall('ZADD', K.ruled, '0', group)
  end
  rules = nil
  review(group)
end

-- What is said of the end of a pause: the next turn looks at it in time.
local function note_end(of, upto)
  set_bit('e')
  call('ZADD', K.resumes, ms(upto), of)
  if upto < FOREVER then
    due_by(upto)
    hint(upto)
  end
end

-- The group of a job has had enough until a time. A pause that a person has set stays, and ends no
-- earlier. False: the job has no group, or there are as many rules of groups as there may be.
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
  -- What is not in this form is paused by a rule, and has no end.
  if ends == '' or ends and whole(ends) >= upto or not ends and string.find(stored or '', 'p', 1, true) then
    return true
  elseif not ends or whole(ends) <= now then
    rule, since, record = string.match(stored or '::::', '^[^p]*'), ms(now), C.after_rate_limit
  end
  set_rule(group, table.concat({ rule .. 'p' .. since, ms(upto), record }, ':'))
  note_end('g' .. group, upto)
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
  forget_end(of)
end
