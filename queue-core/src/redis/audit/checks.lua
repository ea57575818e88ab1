-- The part of the auditor that finds damage. It only reads, and it decodes the stored data itself.
-- It includes no door, because a mistake of a door is damage too.
-- ARGV[1]    check     the check: a name of `CHECKS`
-- ARGV[2..]  subjects  names, ids, members or pairs
--- include script/prelude, script/clock, script/bits, script/incarnation, script/recount_bits

local broken = {}
-- The subjects of the check.
local subjects = { unpack(ARGV, 2) }
-- The actions of the repairer: for each finding, and for remains of removed jobs, which are not
-- damage.
local repair, tidy = nil, nil

local function report_finding(subject, ...)
  broken[#broken + 1] = subject
  if repair then
    repair(subject, ...)
  end
end

local CHECKS, READY = {}, { [0] = K.ready0, [1] = K.ready1, [2] = K.ready2, [3] = K.ready3, [9] = K.suspect }
-- The ids of the lists, if the check has read all lists.
local ready = {}

-- The functions are in a block because Lua allows at most 200 local names in a script.
do
  -- Iterates over the subjects from a position on.
  local function subjects_from(from)
    local at = (from or 1) - 1
    return function()
      at = at + 1
      return subjects[at]
    end
  end

  local function is_job(id)
    return call('HEXISTS', K.jobs, id) == 1
  end

  local function has_ended(id)
    return not is_job(id) or call('HEXISTS', K.records, id) == 1
  end

  -- The end of a group that begins here. A group is its name after the name's length in two bytes.
  local function end_of_group(text, from)
    return from + 1 + (byte(text, from) or 0) * 256 + (byte(text, from + 1) or 0)
  end

  -- Decodes a member of `line`. A suspect has no digit.
  local function place_in(member)
    local from = byte(member) == 255 and 2 or 1
    local upto = end_of_group(member, from)
    local chain = upto + 3 - from
    local number = chain + 1 + (byte(member, chain) or 0)
    return {
      member = member,
      group = string.sub(member, from, upto),
      digit = from == 1 and string.sub(member, upto + 1, upto + 1),
      chain = string.sub(member, chain, number - 1),
      number = string.sub(member, number, number + 6),
      id = string.sub(member, number + 7),
    }
  end

  -- Decodes the stored group of a job, with its member of `line` if it has been in a line.
  local function stored_place_of(id)
    local stored = call('HGET', K.grouped, id)
    if not stored then
      return nil
    end
    local at = (byte(stored) or 0) + 2
    local chain, digit, number = string.sub(stored, 1, at - 1), string.sub(stored, at, at), string.sub(stored, at + 1, at + 7)
    local group, member = string.sub(stored, at + 8), nil
    if digit == ' ' then
      member = '\255' .. group .. chain .. number .. id
    elseif digit ~= '\0' then
      member = group .. digit .. chain .. number .. id
    end
    return { group = group, chain = chain, member = member }
  end

  local function is_in_line(member)
    return call('ZSCORE', K.line, member)
  end

  -- The place of a job in the line.
  local function line_of(id)
    local note = stored_place_of(id)
    return note and note.member and is_in_line(note.member) and note.member
  end

  -- The keys of a chain.
  local function keys_in(chain)
    local keys = {}
    for at = 2, #chain - 15, 16 do
      keys[#keys + 1] = string.sub(chain, at, at + 15)
    end
    return keys
  end

  local function first_between(key, from, upto)
    return call('ZRANGEBYLEX', key, from, upto, 'LIMIT', 0, 1)[1]
  end

  -- The first place in the line of a chain.
  local function first_place_of_chain(entry)
    return first_between(K.line, '[' .. entry, '(' .. entry .. '\255')
  end

  -- Whether a chain is open. A place without limits always is.
  local function is_open(place)
    return #place.chain == 1 or not place.digit or byte(call('HGET', K.chains, place.group .. place.digit .. place.chain) or '') == 111 -- 'o'
  end

  -- The place in `numbered` of a place in the line, if it has one.
  local function numbered_place(place)
    return place.digit and #place.group > 2 and #place.chain > 1 and place.group .. place.digit .. place.number .. place.id
  end

  -- The cap and the order of a group, and whether it is paused. The group's own rule overrides the
  -- rule for all groups, which overrides the declared rule.
  local function rule_of(group)
    local rule = { cap = math.huge, order = '' }
    for at, stored in ipairs(group ~= '\0\0' and call('HMGET', K.rules, '+', '*', group) or {}) do
      local _, cap, _, order, paused = string.match(stored or '', '^(%d*):(%d*):(%d*):(%l?):(p?)')
      rule.cap = tonumber(cap or '') or rule.cap
      rule.order = (order or '') ~= '' and order or rule.order
      rule.is_paused = at == 3 and paused == 'p'
    end
    if rule.order == 'o' or rule.order == 's' then
      rule.cap, rule.is_in_order = math.min(rule.cap, 1), true
    end
    return rule
  end

  local function holders_of(group)
    return call('ZLEXCOUNT', K.holders, '[' .. group .. '\0', '(' .. group .. '\1')
  end

  -- The job that blocks the line of an ordered group, and its place if it has one.
  local function line_holder(group, rule)
    local id = rule.order == 'o' and call('HGET', K.front, group)
    local member = id and line_of(id)
    return id, member and place_in(member)
  end

  -- The number of a place. Lua's `<` on strings would use the locale of the server.
  local function order_of(place)
    return #place.number == 7 and struct.unpack('>I7', place.number) or 0
  end

  -- The first place in the line of an ordered group.
  local function first_of(group)
    for digit in string.gmatch('!0123', '.') do
      local prefix = group .. digit
      local free, from = first_between(K.line, '[' .. prefix .. '\0', '(' .. prefix .. '\1'), '[' .. prefix
      free = free and place_in(free)
      -- Another program may have left members without a job there.
      for _ = 1, 100 do
        local place = first_between(K.numbered, from, '(' .. prefix .. '\255')
        local member = place and line_of(string.sub(place, #prefix + 8))
        local limited = member and place_in(member)
        if not place then
          break
        elseif limited and numbered_place(limited) == place then
          free = free and order_of(free) < order_of(limited) and free or limited
          break
        end
        from = '(' .. place
      end
      if free then
        return free
      end
    end
  end

  -- Whether a group has a job that may start, apart from suspects.
  local function may_start(group, rule)
    local id, place = line_holder(group, rule)
    if id then
      return place and place.digit and is_open(place)
    elseif rule.is_in_order then
      place = first_of(group)
      return place and is_open(place)
    end
    for digit in string.gmatch('!0123', '.') do
      local prefix = group .. digit
      if first_between(K.open, '[' .. prefix, '(' .. prefix .. '\255') or first_between(K.line, '[' .. prefix .. '\0', '(' .. prefix .. '\1') then
        return true
      end
    end
    return false
  end

  -- Whether a group has a suspect that may start if its limits have room.
  local function has_startable_suspect(group, rule)
    local id, place = line_holder(group, rule)
    return first_between(K.line, '[\255' .. group, '(\255' .. group .. '\255') and (not id or place and not place.digit)
  end

  -- Whether a group is listed in `next` or `doubts` but should not be, or should be listed but is
  -- not.
  local function is_wrongly_listed(group)
    local rule = rule_of(group)
    local has_room = not rule.is_paused and holders_of(group) < rule.cap
    return not call('ZSCORE', K.next, group) ~= not (has_room and may_start(group, rule))
      or not call('ZSCORE', K.doubts, group) ~= not (has_room and has_startable_suspect(group, rule))
  end

  -- The job that is held for a key, and when it is due.
  local function waiter_of_key(key)
    local due, id = string.match(call('HGET', K.held, key) or '', '^(%d+):(.*)$')
    return id and is_job(id) and id, whole(due)
  end

  -- Whether a key is held by a job that could hold it, or its hold time has not passed.
  local function is_key_held(key)
    local stored = call('HGET', K.unique, key)
    local upto, duration = string.match(stored or '', '^@(%d+):(%d+):')
    if upto then
      return math.min(whole(upto), now + whole(duration)) > now
    end
    return stored and string.sub(call('HGET', K.keyed, stored) or '', 1, 16) == key and not has_ended(stored) and not call('ZSCORE', K.dead, stored)
      and waiter_of_key(key) ~= stored
  end

  local function is_held_for_key(id)
    local stored = call('HGET', K.keyed, id)
    return stored and waiter_of_key(string.sub(stored, 1, 16)) == id
  end

  -- Whether the job of an id is active, scheduled, in retry, parked, held or kept. A job that is
  -- ready or dead is not.
  local function is_not_ready(id)
    local task = call('HGET', K.notes, id)
    return call('HEXISTS', K.active, id) == 1 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.scheduled, id)
      or call('ZSCORE', K.retry, id) or (task and call('ZSCORE', K.parked, task .. '\0' .. id)) or is_held_for_key(id)
  end

  -- A dead job has a note.
  local function is_dead(id)
    return call('HEXISTS', K.notes, id) == 1 and call('ZSCORE', K.dead, id)
  end

  -- Whether an id is in a place that can be looked up without reading the lists.
  local function is_in_indexed_place(id)
    return is_not_ready(id) or line_of(id) or call('ZSCORE', K.dead, id)
  end

  -- The worker of a lane: the first part of its name.
  local function worker_of(lane)
    return string.match(lane, '^[^.]*')
  end

  -- The most ids that one call reads in the lists.
  local MOST = 5000

  -- Between two checkpoints, this sum grows by at least the number of ids that were pushed to
  -- `ready`. Each pushed id was counted when it was pushed, or when it began to wait for its time.
  local function count_pushes()
    local sum = -call('ZCARD', K.scheduled) - call('ZCARD', K.retry) - call('HLEN', K.held)
    local counters = { 'enqueued', 'failed', 'snoozed', 'repeated', 'returned', 'reclaimed', 'requeued', 'repaired', '.replaced' }
    for _, counter in ipairs(call('HMGET', K.counters, unpack(counters))) do
      sum = sum + whole(counter)
    end
    return sum
  end

  -- The most ids that were pushed since a checkpoint.
  local function pushes_since(marked_life, marked_pushes)
    local come = count_pushes() - marked_pushes
    if come < 0 or marked_life == '' or marked_life ~= incarnation() then
      return math.huge
    end
    return come
  end

  -- The number of ids that were pushed after the former last ids of a list, if it is at most the
  -- given bound; nil if the former last ids are no longer in the list.
  local function count_pushed_behind(list, tail, come)
    local ids = call('LRANGE', READY[list], -(come + #tail), -1)
    for grown = 0, #ids - #tail do
      local from, at = #ids - #tail - grown, 1
      while at <= #tail and ids[from + at] == tail[at] do
        at = at + 1
      end
      if at > #tail then
        return grown
      end
    end
  end

  -- The places of an id in the lists: for each list its indices, the nearest to the head first. The
  -- subjects `from` to `to` are pairs of a list and a distance from the tail that the list had
  -- before it grew.
  local function places_of(id, from, to, grown)
    local places = {}
    for at = from, to, 2 do
      local list = tonumber(subjects[at])
      local index = grown[list] and call('LLEN', READY[list]) - 1 - subjects[at + 1] - grown[list] or -1
      if index >= 0 and call('LRANGE', READY[list], index, index)[1] == id then
        places[list] = places[list] or {}
        table.insert(places[list], index)
      end
    end
    for _, indices in pairs(places) do
      table.sort(indices)
    end
    return places
  end

  -- The list to which a job belongs while it is ready.
  local function list_of(id)
    local level = tonumber(call('HGET', K.risen, id) or call('HGET', K.priority, id) or '')
    return call('HEXISTS', K.crashes, id) == 1 and 9 or level and READY[level] and level <= 3 and level or 2
  end

  -- Removes the ids from a set that are ready and may have been pushed since a checkpoint. Only
  -- later ids can be beyond an id that was pushed at an end of a list. False: there may be too many
  -- ids to read.
  local function remove_pushed_ready(ids, marked_life, marked_pushes)
    local come, passed, ranges = pushes_since(marked_life, marked_pushes), 0, {}
    for _, list in pairs(READY) do
      local length = call('LLEN', list)
      if length > 0 and length <= 2 * come then
        ranges[#ranges + 1] = { list, 0, length - 1 }
      elseif length > 0 and come > 0 then
        ranges[#ranges + 1] = { list, 0, come - 1 }
        ranges[#ranges + 1] = { list, -come, -1 }
      end
      passed = passed + math.min(length, 2 * come)
    end
    if passed > MOST then
      return false
    end
    for _, range in ipairs(ranges) do
      for _, id in ipairs(call('LRANGE', unpack(range))) do
        ids[id] = nil
      end
    end
    return true
  end

  -- The number of jobs minus the number of places.
  function CHECKS.balance()
    local places = -call('HLEN', K.tombstones) + call('HLEN', K.active) + call('HLEN', K.records) + call('HLEN', K.held) + call('ZCARD', K.line)
    for _, key in ipairs({ K.scheduled, K.retry, K.parked, K.dead }) do
      places = places + call('ZCARD', key)
    end
    for _, list in pairs(READY) do
      places = places + call('LLEN', list)
    end
    return call('HLEN', K.jobs) - places
  end

  -- Feature bits that the queue lacks although it has data of the feature, written by another
  -- program.
  function CHECKS.bits()
    for bit in string.gmatch(missing_bits(), '.') do
      report_finding(bit)
    end
    if tidy then
      tidy()
    end
  end

  -- Lanes without a lease, or with a lease that never ends.
  function CHECKS.lanes()
    for lane in subjects_from() do
      local deadline = call('ZSCORE', K.leases, lane)
      if call('HEXISTS', K.lanes, lane) == 1 and not (deadline and whole(deadline) < FOREVER) then
        report_finding(lane)
      end
    end
  end

  -- Lanes with a deadline that is further ahead than the length of their lease.
  function CHECKS.durations()
    for lane in subjects_from() do
      local deadline, duration = whole(call('ZSCORE', K.leases, lane)), whole(call('ZSCORE', K.durations, lane))
      if duration > 0 and deadline < FOREVER and deadline > now + duration then
        report_finding(lane, duration)
      end
    end
  end

  -- Records of workers that have no lane.
  function CHECKS.records()
    local stay = {}
    for _, lane in ipairs(call('HKEYS', K.lanes)) do
      stay[worker_of(lane)] = true
    end
    for worker in subjects_from() do
      if not stay[worker] and call('HEXISTS', K.workers, worker) + call('HEXISTS', K.loads, worker) + call('HEXISTS', K.asked, worker) > 0 then
        report_finding(worker)
      end
    end
  end

  -- Workers whose record is missing, or is still the damaged one that was read before. Subjects:
  -- pairs of a lane and that record, or ''.
  function CHECKS.workers()
    for i = 1, #subjects, 2 do
      local worker = worker_of(subjects[i])
      if call('HEXISTS', K.lanes, subjects[i]) == 1 and (call('HGET', K.workers, worker) or '') == subjects[i + 1] then
        report_finding(worker)
      end
    end
  end

  -- Active jobs whose lane does not exist. Subjects: pairs of an id and its receipt.
  function CHECKS.active()
    for i = 1, #subjects, 2 do
      local id, receipt = subjects[i], subjects[i + 1]
      local lane = string.match(receipt, '^([%w._-]+):%d+$')
      if call('HGET', K.active, id) == receipt
        and not (lane and (call('HEXISTS', K.lanes, lane) == 1 or call('HEXISTS', K.fenced, lane) == 1)) then
        report_finding(id, lane)
      end
    end
  end

  function CHECKS.unplaced()
    for id in subjects_from() do
      if not is_in_indexed_place(id) then
        report_finding(id)
      end
    end
  end

  function CHECKS.checkpoint()
    local checkpoint = { incarnation(), ms(count_pushes()) }
    for _, list in ipairs({ 9, 0, 1, 2, 3 }) do
      checkpoint[#checkpoint + 1] = call('LLEN', READY[list])
    end
    return checkpoint
  end

  -- Jobs that are in no place, and were not pushed to `ready` since a checkpoint. Subjects: the
  -- checkpoint's life and pushes, ids. False: unknown.
  function CHECKS.strays()
    local lost = {}
    for id in subjects_from(3) do
      lost[id] = true
    end
    if not remove_pushed_ready(lost, subjects[1], tonumber(subjects[2])) then
      return false
    end
    for id in subjects_from(3) do
      if lost[id] and is_job(id) and not is_in_indexed_place(id) then
        report_finding(id)
      end
    end
  end

  -- Jobs that are in no place or in several, if all lists of the queue were read.
  function CHECKS.lost()
    local times = {}
    for digit, ids in pairs(ready) do
      local tombstones = {}
      for _, id in ipairs(ids) do
        if tombstones[id] or call('HEXISTS', K.tombstones, id .. digit) == 0 then
          times[id] = (times[id] or 0) + 1
        end
        tombstones[id] = true
      end
    end
    for id in subjects_from() do
      local n = (times[id] or 0) + ((is_not_ready(id) or line_of(id) or is_dead(id)) and 1 or 0)
      if n > 1 or n == 0 and not call('ZSCORE', K.dead, id) then
        report_finding(id)
      end
    end
  end

  -- Of some ids that were seen in `ready`, those that are in another place too.
  function CHECKS.elsewhere()
    local ids, elsewhere = subjects, {}
    for _, lookup in ipairs({
      { 'HMGET', K.active }, { 'HMGET', K.records }, { 'ZMSCORE', K.scheduled }, { 'ZMSCORE', K.retry }, { 'ZMSCORE', K.dead },
    }) do
      for at, place in ipairs(call('EXISTS', lookup[2]) == 1 and call(lookup[1], lookup[2], unpack(ids)) or {}) do
        elsewhere[at] = elsewhere[at] or place
      end
    end
    for at, task in ipairs(call('EXISTS', K.parked) == 1 and call('HMGET', K.notes, unpack(ids)) or {}) do
      elsewhere[at] = elsewhere[at] or task and call('ZSCORE', K.parked, task .. '\0' .. ids[at])
    end
    for at, id in ipairs(ids) do
      if elsewhere[at] or call('EXISTS', K.held) == 1 and is_held_for_key(id) or line_of(id) then
        report_finding(id)
      end
    end
  end

  -- Ids of jobs that are in several places. Subjects: a checkpoint's life and pushes; the number of
  -- lists, and for each list its digit, a number of ids, and the ids that were at its tail; for
  -- each suspicious id: the id, the number of its places, and for each place the list and the
  -- distance from the tail. False: a search for them would take too long.
  function CHECKS.doubled()
    local come = pushes_since(subjects[1], tonumber(subjects[2]))
    if (come + 1) * subjects[3] > MOST then
      return false
    end
    local grown, at = {}, 4
    for _ = 1, subjects[3] do
      local list, to = tonumber(subjects[at]), at + 1 + subjects[at + 1]
      grown[list], at = count_pushed_behind(list, { unpack(subjects, at + 2, to) }, come), to + 1
    end
    while at <= #subjects do
      local id, to = subjects[at], at + 1 + 2 * subjects[at + 1]
      if is_job(id) then
        local places = places_of(id, at + 2, to, grown)
        local stays, others = is_not_ready(id) or line_of(id) or is_dead(id), {}
        for _, list in ipairs({ list_of(id), 9, 0, 1, 2, 3 }) do
          local indices = places[list] or {}
          places[list] = nil
          -- A tombstone removes the first occurrence when it is popped.
          for nth = call('HEXISTS', K.tombstones, id .. list) == 1 and 2 or 1, #indices do
            if stays then
              others[#others + 1] = { list, indices[nth] }
            end
            stays = true
          end
        end
        if #others > 0 then
          report_finding(id, others, READY)
        end
      end
      at = to + 1
    end
  end

  -- Parked jobs without their task: no worker of the task would find them.
  function CHECKS.names()
    for member in subjects_from() do
      local task, id = string.match(member, '^([^%z]*)%z(.*)$')
      if id and is_job(id) and call('ZSCORE', K.parked, member) and not is_in_indexed_place(id) then
        report_finding(id, task)
      end
    end
  end

  -- Keys whose stored holder could not hold them.
  function CHECKS.unique()
    for key in subjects_from() do
      local stored = call('HGET', K.unique, key)
      if stored and not is_key_held(key) and not (string.find(stored, '^@%d+:%d+:') and call('ZSCORE', K.within, key)) then
        report_finding(key)
      end
    end
  end

  -- Jobs that are held for a free key, and entries without a job. Subjects: keys.
  function CHECKS.held()
    for key in subjects_from() do
      local id, due = waiter_of_key(key)
      if call('HEXISTS', K.held, key) == 1 and not (id and is_key_held(key)) then
        report_finding(id or key, key, id, is_key_held(key))
      elseif id and tidy and tonumber(redis.pcall('ZSCORE', K.holds, id)) ~= due then
        tidy(key)
      end
    end
  end

  -- Live jobs that should hold their key and do not, unless an operator has released the key.
  function CHECKS.keyed()
    for id in subjects_from() do
      local stored = call('HGET', K.keyed, id)
      local key, hold, since = string.match(stored or '', '^(................)(.?)(.*)$')
      if stored and has_ended(id) then
        if tidy then
          tidy(id)
        end
      elseif key and hold ~= 'w' and whole(since) > 0 and not (hold == 's' and call('HEXISTS', K.active, id) == 1)
        and not call('ZSCORE', K.dead, id) and not is_held_for_key(id) and not is_key_held(key) then
        report_finding(id)
      end
    end
  end

  -- Jobs that a schedule counts as running, but that have ended or do not exist.
  function CHECKS.ticked()
    for id in subjects_from() do
      if call('HEXISTS', K.ticked, id) == 1 and (has_ended(id) or call('ZSCORE', K.dead, id)) then
        report_finding(id)
      end
    end
  end

  -- Members of the index of tags whose job does not exist, or whose score is wrong.
  function CHECKS.tags()
    for member in subjects_from() do
      local score, is_there = call('ZSCORE', K.tags, member), is_job(string.sub(member, 9))
      if score and (not is_there or tonumber(score) ~= 0) then
        report_finding(member, is_there)
      end
    end
  end

  -- Members of the index of tags that the envelope of their job does not have. Subjects: pairs of a
  -- member and that envelope.
  function CHECKS.wrong_tags()
    for i = 1, #subjects, 2 do
      if call('ZSCORE', K.tags, subjects[i]) and call('HGET', K.jobs, string.sub(subjects[i], 9)) == subjects[i + 1] then
        report_finding(subjects[i])
      end
    end
  end

  -- Members that the index of tags does not have. Subjects: pairs of a member and the envelope that
  -- has its tag.
  function CHECKS.untagged()
    for i = 1, #subjects, 2 do
      if not call('ZSCORE', K.tags, subjects[i]) and call('HGET', K.jobs, string.sub(subjects[i], 9)) == subjects[i + 1] then
        report_finding(subjects[i])
      end
    end
  end

  -- Slots of groups and limits whose jobs are not active, or do not have this group or limit.
  function CHECKS.holders()
    for member in subjects_from() do
      local is_key = byte(member) == 255
      local group = string.sub(member, 1, is_key and 17 or end_of_group(member, 1))
      local id = string.sub(member, #group + 2)
      local note = stored_place_of(id)
      local is_right = note and note.group == group
      for _, key in ipairs(note and is_key and keys_in(note.chain) or {}) do
        is_right = is_right or group == '\255' .. key
      end
      if call('ZSCORE', K.holders, member) and (call('HEXISTS', K.active, id) == 0 or not is_right) then
        report_finding(member, group)
      end
    end
  end

  -- Active jobs of groups without a slot.
  function CHECKS.grouped()
    for id in subjects_from() do
      local note = stored_place_of(id)
      if note and has_ended(id) then
        if tidy then
          tidy(id)
        end
      elseif note and call('HEXISTS', K.active, id) == 1 then
        local misses = not call('ZSCORE', K.holders, note.group .. '\0' .. id)
        for _, key in ipairs(keys_in(note.chain)) do
          misses = misses or not call('ZSCORE', K.holders, '\255' .. key .. '\0' .. id)
        end
        if misses then
          report_finding(id, note)
        end
      end
    end
  end

  -- Lines of ordered groups that a job blocks although it has ended.
  function CHECKS.front()
    for group in subjects_from() do
      local id = call('HGET', K.front, group)
      if id and (has_ended(id) or call('ZSCORE', K.dead, id)) then
        report_finding(group)
      end
    end
  end

  -- Eligible groups without a job that may start.
  function CHECKS.eligible()
    for group in subjects_from() do
      if is_wrongly_listed(group) then
        report_finding(group)
      end
    end
  end

  -- Groups with a job that may start that are not eligible. Subjects: the member of `line` after
  -- which the check begins, or ''; the number of groups. Returns the member to continue after, or
  -- '', and the groups.
  function CHECKS.asleep()
    local from = subjects[1] == '' and '-' or '(' .. subjects[1]
    for _ = 1, subjects[2] do
      local member = first_between(K.line, from, '+')
      if not member then
        from = '('
        break
      end
      local place = place_in(member)
      if is_wrongly_listed(place.group) then
        report_finding(place.group)
      end
      from = '(' .. (place.digit and '' or '\255') .. place.group .. '\255'
    end
    return { string.sub(from, 2), unpack(broken) }
  end

  -- Chains without a job, and chains that are neither open nor shut as their entries state.
  function CHECKS.chains()
    for entry in subjects_from() do
      local place, behind = call('HGET', K.chains, entry), end_of_group(entry, 1) + 1
      local prefix, chain, rest = string.sub(entry, 1, behind), string.sub(entry, behind + 1), string.sub(place or '', 2)
      local is_sound = place and first_place_of_chain(entry)
        and (byte(place) == 111 and call('ZSCORE', K.open, prefix .. string.sub(rest, 1, 7) .. chain) or call('ZSCORE', K.shut, rest .. entry)) -- 'o'
      if place and not is_sound then
        report_finding(entry, string.sub(prefix, 1, -2), string.sub(prefix, -1), chain)
      end
    end
  end

  -- Limit keys that have room, with chains shut under them, that no claim will examine. Subjects:
  -- members of `shut`.
  function CHECKS.shut()
    for member in subjects_from() do
      local key = string.sub(member, 1, 16)
      local cap = tonumber(string.match(call('HGET', K.limits, string.sub(key, 1, 6)) or '', '^(%d*):%d*:%d*:%d*%z') or '')
      if call('ZSCORE', K.shut, member) and not call('ZSCORE', K.roomy, key) and not call('ZSCORE', K.wake, key)
        and not (cap and holders_of('\255' .. key) >= cap) then
        report_finding(member, key)
      end
    end
  end

  -- Places in the order of a group that do not belong to a job.
  function CHECKS.numbered()
    for place in subjects_from() do
      local upto = end_of_group(place, 1)
      local member = line_of(string.sub(place, upto + 9))
      if call('ZSCORE', K.numbered, place) and not (member and numbered_place(place_in(member)) == place) then
        report_finding(string.sub(place, 1, upto), place)
      end
    end
  end

  -- Places in the line of jobs with limits whose chain is neither open nor shut, or that are
  -- missing in the order of their group.
  function CHECKS.unchained()
    for member in subjects_from() do
      local place = place_in(member)
      local number = numbered_place(place)
      if #place.chain > 1 and place.digit and is_in_line(member)
        and (call('HEXISTS', K.chains, place.group .. place.digit .. place.chain) == 0 or number and not call('ZSCORE', K.numbered, number)) then
        report_finding(member, place)
      end
    end
  end

  -- Places in the lines of groups that have no job.
  function CHECKS.line()
    for member in subjects_from() do
      local place = place_in(member)
      if not is_job(place.id) and is_in_line(member) then
        report_finding(member, place)
      end
    end
  end

  -- Places in the lines of groups whose jobs are elsewhere, or have another place in the line.
  function CHECKS.line_doubled()
    for member in subjects_from() do
      local place = place_in(member)
      if is_job(place.id) and is_in_line(member)
        and (is_not_ready(place.id) or is_dead(place.id) or (line_of(place.id) or member) ~= member) then
        report_finding(member, place)
      end
    end
  end

  -- Ids without a job in a list. Subjects: the first and the last index.
  for digit, list in pairs(READY) do
    CHECKS[digit == 9 and 'suspect' or 'ready' .. digit] = function()
      for _, id in ipairs(call('LRANGE', list, subjects[1], subjects[2])) do
        if not is_job(id) and call('HEXISTS', K.tombstones, id .. digit) == 0 then
          report_finding(id, digit)
        end
      end
    end
  end

  -- Members without a job in a sorted set. Subjects: members.
  for name, key in pairs({ scheduled = K.scheduled, retry = K.retry, dead = K.dead, parked = K.parked }) do
    CHECKS[name] = function()
      for member in subjects_from() do
        local id = name == 'parked' and string.match(member, '%z(.*)$') or member
        if not is_job(id) and call('ZSCORE', key, member) then
          report_finding(id, key, member)
        end
      end
    end
  end
end
