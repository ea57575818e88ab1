-- Limits: which chains may start. A chain is a group, a digit (as in `line`) and limit keys, each
-- of 16 bytes after their length in one byte. A chain with keys is *open*, or *shut* under a key
-- that permitted none of its jobs to start:
--
--   `chains`    chain -> 'o' and a ticket (7 bytes), or 's', the key, the era of virtual time
--               (2 bytes), a start and a ticket (7 bytes each). One that has waited and is open
--               again has its era and start behind its ticket
--   `open`      group, digit, ticket, keys: within a group and a digit the least ticket is next, so
--               that chains are served in rotation
--   `shut`      key, era, start, ticket, group, digit, keys: the chains that wait for a key, those
--               of the group with the least start first
--   `ranked`    key, group, digit, ticket, keys: the same by group, priority and age. The first of
--               a group under a key has the turn of the group: its start. The others have none
--   `numbered`  group, digit, number, id: ready jobs with limits and a group, in their order
--   `roomy`     keys under which chains are shut and that may let them start: the next claims
--               examine them
--   `wake`      keys that let the next job start at a time, and under which chains are shut
--   `tat`       key -> theoretical arrival time in microseconds, rate (starts, period), until when
--               it is closed in milliseconds
--   `holders`   255, key, zero, id of each running job
--
-- A chain is open until a claim examines it: the claim shuts the chains whose jobs cannot start. A
-- script that gives a key room adds the key to `roomy` before it ends. For this reason no job waits
-- that may start, and no claim examines shut chains.
--
-- A chain that waits keeps its place until one of its jobs starts: its ticket is smaller than those
-- of chains that have not waited. Until then no chain of its group that has not waited, and has no
-- higher priority, takes a start from its key.
--- include script/tools, script/rare

local made_limits = nil

-- The start of a chain that waits behind another one of its group: behind all turns.
local NO_TURN = string.rep('\254', 9)

-- These functions are created only if a queue has limits.
local function limits()
  if made_limits then
    return made_limits
  end
  local L, rules_of, keys, places = { looked = 0, passed = 0, picked = {}, picks = 0 }, {}, {}, {}
  made_limits = L

  local function packed(number)
    return struct.pack('>I7', math.floor(math.min(math.max(number, 0), FOREVER)))
  end

  -- Tickets are reserved a hundred at a time, and a script leaves out those that it does not use.
  -- The tickets of chains that have not waited since their last start are larger than all others.
  local function ticket(waits)
    if L.ticket == L.last_ticket then
      L.last_ticket = whole(call('HINCRBY', K.meta, 'ticket', '100'))
      L.ticket = L.last_ticket - 100
    end
    L.ticket = L.ticket + 1
    return packed(waits and L.ticket or C.tickets + L.ticket)
  end

  -- The keys of a chain.
  local function keys_of(chain)
    local list = {}
    for at = 2, #chain - 15, 16 do
      list[#list + 1] = string.sub(chain, at, at + 15)
    end
    return list
  end
  L.keys_of = keys_of

  -- The effective rule of the limit of a key.
  local function rule_of_key(key)
    local name = string.sub(key, 1, 6)
    if not rules_of[name] then
      local cap, starts, period, burst = string.match(call('HGET', K.limits, name) or '', '^(%d*):(%d*):(%d*):(%d*)%z')
      local rule = { cap = tonumber(cap or ''), starts = starts or '', period = period or '' }
      if tonumber(rule.starts) and tonumber(rule.period) and tonumber(rule.starts) > 0 then
        rule.burst = math.max(tonumber(burst) or 1, 1)
        rule.step = rule.period / rule.starts
        rule.allowed = math.ceil(rule.burst * rule.step)
        rule.most = rule.allowed + math.max(C.debt_periods * rule.period, C.longest_debt_us)
      end
      rules_of[name] = rule
    end
    return rules_of[name]
  end

  -- The state of a key in this script: free slots, how far its arrival time is ahead, and until
  -- when it is closed.
  local function state_of(key)
    local state = keys[key]
    if not state then
      local rule = rule_of_key(key)
      state = { rule = rule, left = math.huge, ahead = 0, closed = 0 }
      keys[key] = state
      if rule.cap then
        state.left = rule.cap - call('ZLEXCOUNT', K.holders, '[\255' .. key .. '\0', '(\255' .. key .. '\1')
      end
      if L.has_tat == nil then
        L.has_tat = call('EXISTS', K.tat) == 1
      end
      local tat, starts, period, closed = string.match(L.has_tat and call('HGET', K.tat, key) or '', '^(%d+):(%d*):(%d*):(%d*)$')
      if tat and rule.step then
        state.ahead = math.max(whole(tat) - micros, 0)
        if (starts ~= rule.starts or period ~= rule.period) and tonumber(starts) and tonumber(period) and tonumber(period) > 0 then
          -- From now on the new rate applies.
          state.ahead, state.dirty = math.floor(state.ahead / (period / starts) * rule.step), true
        end
        -- A wrong clock has stored a larger value. The next claim corrects it.
        state.dirty = state.dirty or state.ahead > rule.most
        state.ahead = math.min(state.ahead, rule.most)
      end
      state.closed = math.min(whole(closed or ''), now + C.longest_closed)
      state.dirty = state.dirty or whole(closed or '') > state.closed
    end
    return state
  end
  L.state_of = state_of

  local function charge(rule, cost)
    return math.ceil(math.min(cost, rule.burst) * rule.step)
  end

  -- The time in milliseconds from which the rate of a key permits a job of this cost; nil: now.
  -- Slots are not checked.
  function L.opens_at(key, cost)
    local state = state_of(key)
    local upto = state.closed > now and state.closed or nil
    local wait = state.rule.step and state.ahead + charge(state.rule, cost) - state.rule.allowed or 0
    return wait > 0 and math.max(upto or 0, math.ceil((micros + wait) / 1000)) or upto
  end

  -- The same including slots; FOREVER: no slot is free.
  function L.until_when(key, cost)
    return state_of(key).left <= 0 and FOREVER or L.opens_at(key, cost)
  end

  -- The time until which a key is reserved for a waiting job with a higher cost. `upto`: the time
  -- for the key itself.
  function L.kept_until(key, upto)
    local at = whole(call('ZSCORE', K.wake, key))
    return at > math.max(now, upto or 0) and not call('ZSCORE', K.roomy, key) and at or upto
  end

  local function has_costs()
    if L.has_costs == nil then
      L.has_costs = call('EXISTS', K.costs) == 1
    end
    return L.has_costs
  end

  local function is_waited_for(key)
    return call('ZRANGEBYLEX', K.shut, '[' .. key, '(' .. key .. '\255', 'LIMIT', 0, 1)[1]
  end

  -- The same for a job that does not wait for the key yet. If all jobs cost the same, the key
  -- itself is decisive. A stored time beyond the longest debt of the rule is ignored, because a
  -- wrong clock has set it.
  function L.reserved_until(key, upto)
    local rule = rule_of_key(key)
    local at = rule.step and has_costs() and L.kept_until(key, upto)
    return at and at <= math.max(now + math.ceil(rule.most / 1000), upto or 0) and is_waited_for(key) and at or upto
  end

  function L.cost_of(id)
    return has_costs() and math.max(whole(call('HGET', K.costs, id)), 1) or 1
  end

  -- The key that blocks a job of a chain, and the time until which it does.
  function L.blocker(chain, id)
    local cost = L.cost_of(id)
    for _, key in ipairs(keys_of(chain)) do
      local upto = L.until_when(key, cost)
      if upto ~= FOREVER then
        upto = L.reserved_until(key, upto)
      end
      if upto then
        return key, upto
      end
    end
  end

  -- Charges the slots and the starts of a job to its keys; `back`: refunds them.
  function L.take(chain, id, back)
    local cost = L.cost_of(id)
    for _, key in ipairs(keys_of(chain)) do
      local state = state_of(key)
      state.left = state.left - (back and -1 or 1)
      if state.rule.step then
        state.ahead, state.dirty = math.max(state.ahead + (back and -1 or 1) * charge(state.rule, cost), 0), true
      end
    end
  end

  -- Refunds the charge of a job to the rates at once. Its slots are counted again.
  function L.refund(id)
    local stored = call('HGET', K.grouped, id)
    local chain = stored and string.sub(stored, 1, byte(stored) + 1) or ''
    if #chain > 1 then
      L.take(chain, id, true)
      L.write()
      for _, key in ipairs(keys_of(chain)) do
        keys[key] = nil
      end
      L.recheck_keys(keys_of(chain))
    end
  end

  -- Corrects the charge of a job by the usage of its run: the difference is charged or refunded.
  -- `used`: starts by limits, '' for all others. The slots of the job are released right
  -- afterwards, so that the keys are examined again.
  function L.correct(id, used)
    local stored, declared = call('HGET', K.grouped, id), L.cost_of(id)
    for _, key in ipairs(stored and keys_of(string.sub(stored, 1, byte(stored) + 1)) or {}) do
      local state, starts = state_of(key), used[string.sub(key, 1, 6)] or used['']
      if starts and state.rule.step then
        local ahead = state.ahead + math.ceil(math.min(starts * state.rule.step, state.rule.most)) - charge(state.rule, declared)
        state.ahead, state.dirty = math.max(math.min(ahead, state.rule.most), 0), true
      end
    end
    L.write()
    keys = {}
  end

  -- Closes a limit of a job until a time: the limit with this name, or without a name the first one
  -- with a rate, or else the first one. False: the job has no such limit.
  function L.close(id, upto, name)
    local stored = call('HGET', K.grouped, id)
    local chosen, with_rate = nil, false
    for _, key in ipairs(stored and keys_of(string.sub(stored, 1, byte(stored) + 1)) or {}) do
      if string.sub(key, 1, 6) == name then
        chosen = key
        break
      elseif name == '' and (not chosen or not with_rate and rule_of_key(key).step) then
        chosen, with_rate = key, rule_of_key(key).step
      end
    end
    if not chosen then
      return false
    end
    local state = state_of(chosen)
    state.closed, state.dirty = math.max(state.closed, math.min(upto, now + C.longest_closed)), true
    L.write()
    keys[chosen] = nil
    return true
  end

  -- Stores the changed rates.
  function L.write()
    for key, state in pairs(keys) do
      if state.dirty then
        state.dirty, L.has_tat = nil, true
        put_rare('m', K.tat, key, ms(micros + state.ahead) .. ':' .. state.rule.starts .. ':' .. state.rule.period .. ':' .. ms(state.closed))
      end
    end
  end

  -- Marks keys that may have room again. None of them is reserved for a job with a higher cost
  -- until a claim has examined it.
  function L.recheck_keys(loose)
    local roomy, woken = {}, {}
    for _, key in ipairs(loose) do
      woken[#woken + 1] = rule_of_key(key).step and key or nil
      if is_waited_for(key) then
        roomy[#roomy + 1], roomy[#roomy + 2] = ms(now), key
        opened = true
      end
    end
    call_in_pieces('ZADD', K.roomy, roomy)
    call_in_pieces('ZREM', K.wake, woken)
  end

  -- Records the time at which a key opens under which chains are shut.
  local function wake_at(key, at)
    if at < FOREVER then
      call('ZADD', K.wake, ms(at), key)
      note_next_due(at)
      local head = call('ZRANGE', K.wake, 0, 0, 'WITHSCORES')
      if whole(head[2]) >= at then
        hint(at)
      end
    end
  end

  -- The value of a chain in `chains`. It is read once.
  local function place_of(entry)
    if places[entry] == nil then
      places[entry] = call('HGET', K.chains, entry)
    end
    return places[entry]
  end

  local function has_jobs(group, digit, chain)
    local prefix = group .. digit .. chain
    return call('ZRANGEBYLEX', K.line, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 1)[1]
  end

  -- Whether a key is reserved for the first job of a chain that is shut under it.
  local function is_kept_for(key, group, digit, chain)
    local head = rule_of_key(key).step and has_costs() and has_jobs(group, digit, chain)
    return head and L.cost_of(string.sub(head, #group + #chain + 9)) > 1
  end

  -- Writes new places of chains, each of which is a group, a digit, keys and a new place. Without a
  -- place the chain is removed.
  local function put(moves)
    local from, to, placed, gone = { {}, {}, {} }, { {}, {}, {} }, {}, {}
    local function note(lists, place, group, digit, chain, score)
      local is_open = byte(place) == 111 -- 'o'
      local list, rest = lists[is_open and 1 or 2], string.sub(place, 2, is_open and 8 or -1)
      list[#list + 1] = score
      list[#list + 1] = is_open and group .. digit .. rest .. chain or rest .. group .. digit .. chain
      if not is_open then
        local ranks = lists[3]
        ranks[#ranks + 1] = score
        ranks[#ranks + 1] = string.sub(rest, 1, 16) .. group .. digit .. string.sub(rest, 26) .. chain
      end
    end
    for _, moved in ipairs(moves) do
      local group, digit, chain, place = unpack(moved, 1, 4)
      local entry = group .. digit .. chain
      local before = place_of(entry)
      if before then
        note(from, before, group, digit, chain)
      end
      if place then
        note(to, place, group, digit, chain, '0')
        placed[#placed + 1], placed[#placed + 2] = entry, place
      elseif before then
        gone[#gone + 1] = entry
      end
      places[entry] = place
    end
    call_in_pieces('ZREM', K.open, from[1])
    call_in_pieces('ZREM', K.shut, from[2])
    call_in_pieces('HDEL', K.chains, gone)
    if #placed > 0 then
      set_bit('m')
      set_fields(K.chains, placed)
    end
    call_in_pieces('ZADD', K.open, to[1])
    call_in_pieces('ZADD', K.shut, to[2])
    call_in_pieces('ZREM', K.ranked, from[3])
    call_in_pieces('ZADD', K.ranked, to[3])
  end

  -- The place of a chain with another start.
  local function with_start(place, start)
    return string.sub(place, 1, 17) .. start .. string.sub(place, 27)
  end

  -- Digit, ticket and keys of a member of `ranked`, and the place of the chain. False: another
  -- program has left it there.
  local function parts_of_ranked(key, group, member)
    local at = #key + #group + 1
    local digit, its_ticket, chain = string.sub(member, at, at), string.sub(member, at + 1, at + 7), string.sub(member, at + 8)
    local place = place_of(group .. digit .. chain) or ''
    if string.sub(place, 1, 17) == 's' .. key and string.sub(place, 27) == its_ticket then
      return digit, its_ticket, chain, place
    end
    call('ZREM', K.ranked, member)
    return false
  end

  -- The first chain of a group that is shut under a key: it has the turn of the group. Returns its
  -- digit, ticket, keys and place.
  local function first_of(key, group)
    local prefix = key .. group
    while true do
      local member = call('ZRANGEBYLEX', K.ranked, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 1)[1]
      local digit, its_ticket, chain, place = nil, nil, nil, nil
      if member then
        digit, its_ticket, chain, place = parts_of_ranked(key, group, member)
      end
      if not member or digit then
        return digit, its_ticket, chain, place
      end
    end
  end

  -- Moves chains, and with them the turns of their groups: under each key, the first chain of a
  -- group has the start of the group, and its other chains have none. A chain for which the key is
  -- reserved keeps its start. `moves`: as for `put`.
  local function move(moves)
    local turns, loose = {}, {}
    local function turn_of(place, group)
      local key = string.sub(place, 2, 17)
      local turn = turns[key .. group]
      if not turn then
        local digit, its_ticket, chain, its_place = first_of(key, group)
        turn = { key = key, group = group, start = its_place and string.sub(its_place, 18, 26) or NO_TURN }
        if digit then
          turn.rank, turn.holder = digit .. its_ticket, { group, digit, chain, its_place }
        end
        turns[key .. group] = turn
      end
      return turn
    end
    for _, moved in ipairs(moves) do
      local before = place_of(moved[1] .. moved[2] .. moved[3])
      if before and byte(before) == 115 then -- 's'
        local turn = turn_of(before, moved[1])
        if turn.rank == moved[2] .. string.sub(before, 27) then
          turn.rank, turn.holder, turn.has_left = nil, nil, true
        end
      end
    end
    local changed = {}
    for _, moved in ipairs(moves) do
      local group, digit, chain, place = unpack(moved, 1, 4)
      changed[#changed + 1] = moved
      if place and byte(place) == 115 then -- 's'
        local turn, rank = turn_of(place, group), digit .. string.sub(place, 27)
        if is_before(string.sub(place, 18, 26), turn.start) then
          turn.start = string.sub(place, 18, 26)
        end
        local behind = moved
        if not turn.rank or is_before(rank, turn.rank) then
          behind, turn.rank, turn.holder = turn.holder, rank, moved
        end
        if behind and not is_kept_for(turn.key, group, behind[2], behind[3]) then
          behind[4] = with_start(behind[4], NO_TURN)
          changed[#changed + 1] = behind ~= moved and not behind.is_known and behind or nil
        end
        moved.is_known = true
      end
    end
    for _, turn in pairs(turns) do
      local holder = turn.holder
      if holder and string.sub(holder[4], 18, 26) ~= turn.start then
        holder[4] = with_start(holder[4], turn.start)
        changed[#changed + 1] = not holder.is_known and holder or nil
      end
      loose[#loose + 1] = turn.has_left and turn or nil
    end
    put(changed)
    for _, turn in ipairs(loose) do
      local digit, _, chain, place = first_of(turn.key, turn.group)
      if digit and is_before(turn.start, string.sub(place, 18, 26)) then
        put({ { turn.group, digit, chain, with_start(place, turn.start) } })
      end
    end
  end

  -- Removes a chain from its place.
  function L.remove(group, digit, chain)
    move({ { group, digit, chain, false } })
  end

  -- Adds an open chain as the last one of its group, unless it exists.
  function L.join(group, digit, chain)
    if not place_of(group .. digit .. chain) then
      move({ { group, digit, chain, 'o' .. ticket() } })
    end
  end

  -- Shuts chains, each under a key until a time, at their new places. Without a time the key has
  -- room, but for other jobs that wait.
  local function shut(moves, shut_under)
    move(moves)
    local unroomy = {}
    for _, under in ipairs(shut_under) do
      unroomy[#unroomy + 1] = under[2] and under[1]
    end
    call_in_pieces('ZREM', K.roomy, unroomy)
    for _, under in ipairs(shut_under) do
      if under[2] then
        wake_at(under[1], under[2])
      else
        call('ZADD', K.roomy, 'NX', ms(now), under[1])
      end
    end
  end

  local function era()
    L.era = L.era or whole(call('HGET', K.meta, 'era') or '') % 65536
    return L.era
  end

  local function stored_start(start)
    return struct.pack('>I2', era()) .. packed(start)
  end

  -- A start that is stored, in the virtual time of now.
  local function start_in(stored)
    local its_era, start = struct.unpack('>I2I7', stored)
    return start - (era() - its_era) * (C.era * 3 / 4)
  end

  -- The place of a chain that is shut under a key: its former place if it has waited, or a place
  -- behind the others. A chain that has waited since an earlier era comes first.
  local function under(key, start, waited)
    if waited then
      return 's' .. key .. string.sub(waited, 9) .. string.sub(waited, 2, 8)
    end
    return 's' .. key .. stored_start(start) .. ticket(true)
  end

  -- The place of an open chain that has waited and from which this script has picked no job.
  local function waited_at(entry)
    local place = not L.picked[entry] and place_of(entry)
    return place and #place > 8 and byte(place) == 111 and place -- 'o'
  end

  -- The place in `numbered` of a member of `line`; nil without limits or a group, and for a
  -- suspect.
  local function numbered(member)
    local digit = 3 + byte(member, 1) * 256 + byte(member, 2)
    if digit > 3 and byte(member, 1) < 255 and byte(member, digit + 1) > 0 then
      return string.sub(member, 1, digit) .. string.sub(member, digit + byte(member, digit + 1) + 2)
    end
  end
  L.numbered = numbered

  -- Adds the places of members of `line`; `back`: removes them.
  function L.number(members, back)
    local list = {}
    for _, member in ipairs(members) do
      local place = numbered(member)
      if place and not back then
        list[#list + 1] = '0'
      end
      list[#list + 1] = place
    end
    call_in_pieces(back and 'ZREM' or 'ZADD', K.numbered, list)
  end

  -- The first job with limits of a group and a digit, as a member of `line`, and its number. Places
  -- that another program has left are removed.
  function L.first_numbered(prefix, in_line)
    for _ = 1, 100 do
      local place = call('ZRANGEBYLEX', K.numbered, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 1)[1]
      local member = place and in_line(string.sub(place, #prefix + 8))
      if not place or member and numbered(member) == place then
        return member, place and string.sub(place, #prefix + 1, #prefix + 7)
      end
      call('ZREM', K.numbered, place)
    end
  end

  -- A job has left its chain; `member` is its place in `line` if known. If the chain is shut, its
  -- key may have waited for this job, and may now permit jobs with a lower cost.
  function L.leave(group, digit, chain, member)
    if member then
      L.number({ member }, true)
    end
    local place = place_of(group .. digit .. chain) or ''
    if not has_jobs(group, digit, chain) then
      L.remove(group, digit, chain)
    end
    if byte(place) == 115 then -- 's'
      L.recheck_keys({ string.sub(place, 2, 17) })
    end
  end

  -- Whether a group has an open chain.
  function L.has_open(group)
    return call('ZRANGEBYLEX', K.open, '[' .. group .. '!', '(' .. group .. '4', 'LIMIT', 0, 1)[1] and true or false
  end

  -- The key under which a chain is shut.
  function L.shut_under(group, digit, chain)
    return string.match(place_of(group .. digit .. chain) or '', '^s(' .. string.rep('.', 16) .. ')')
  end

  function L.is_open(group, digit, chain)
    return byte(place_of(group .. digit .. chain) or '') == 111 -- 'o'
  end

  -- Group, digit and keys of a member of `shut`.
  function L.parts_of_shut(member)
    local behind = 35 + byte(member, 33) * 256 + byte(member, 34)
    return string.sub(member, 33, behind - 1), string.sub(member, behind, behind), string.sub(member, behind + 1)
  end

  -- The number of jobs in the chain of a member of `shut`.
  function L.depth_of_shut(member)
    local group, digit, chain = L.parts_of_shut(member)
    local prefix = group .. digit .. chain
    return call('ZLEXCOUNT', K.line, '[' .. prefix, '(' .. prefix .. '\255')
  end

  -- Marks keys whose time has come, because they may have room.
  function L.come_due()
    local woken = call('ZRANGEBYSCORE', K.wake, '-inf', ms(now), 'LIMIT', 0, C.limit_step)
    call_in_pieces('ZREM', K.wake, woken)
    L.recheck_keys(woken)
  end

  -- The number of starts of cost 1 that a key permits now, or 0 and the time of the next one.
  local function room_of_key(key)
    local state = state_of(key)
    local upto = L.until_when(key, 1)
    if upto then
      return 0, upto
    elseif state.rule.step then
      return math.min(state.left, math.max(math.floor((state.rule.allowed - state.ahead) / state.rule.step), 1))
    end
    return state.left
  end

  -- The key for which an open chain still has to wait although the key has room. It waits if the
  -- key is reserved for another open chain, or if a chain of its group with a higher priority is
  -- shut under the key. A chain that has not waited also waits if the key is reserved for a shut
  -- chain, or if the next chain under the key has the same group and priority. In an ordered group
  -- only the first job may start, so priorities do not count.
  local function waits_behind(group, digit, chain, is_only)
    local entry = group .. digit .. chain
    for _, key in ipairs(L.are_roomy and keys_of(chain) or {}) do
      local reserved, prefix = state_of(key).reserved, key .. group
      if reserved and reserved ~= entry then
        return key
      elseif not reserved then
        local best = not is_only and call('ZRANGEBYLEX', K.ranked, '[' .. prefix, '(' .. prefix .. digit .. '\255', 'LIMIT', 0, 1)[1]
        local its_digit = best and string.sub(best, #prefix + 1, #prefix + 1)
        if its_digit and its_digit < digit then
          return key
        end
        local first = not waited_at(entry) and is_waited_for(key)
        if first then
          local its_group, first_digit, its_chain = L.parts_of_shut(first)
          if is_kept_for(key, its_group, first_digit, its_chain) or its_group == group and not is_only and (its_digit or first_digit) <= digit then
            return key
          end
        end
      end
    end
  end

  -- The turns under a key, the earliest first. Returns two functions: the first returns the next
  -- turn, the second lets the group of a turn wait for its next one. If a group was served after
  -- its turn was stored, its turn has the start of the group. A turn that is more than 200 starts
  -- late keeps its own start, so that a group that is always served elsewhere does not starve under
  -- this key. `starts`: the next starts of the groups whose chains this claim has opened. `opened`:
  -- these chains.
  local function turns_under(key, asked, served_until, starts, opened)
    local read, at, from, waiting = {}, 1, '[' .. key, {}
    local function is_sooner(one, other)
      return one.start < other.start or one.start == other.start and is_before(one.ticket, other.ticket)
    end
    local function hold(turn)
      turn.start = math.max(turn.start, starts[turn.group] or turn.start)
      local place = #waiting + 1
      while place > 1 and is_sooner(turn, waiting[place - 1]) do
        place = place - 1
      end
      table.insert(waiting, place, turn)
    end
    local function next_turn()
      while at <= asked + C.limit_step do
        if at > #read and from then
          local members = call('ZRANGEBYLEX', K.shut, from, '(' .. key .. string.sub(NO_TURN, 1, 1), 'LIMIT', 0, asked + 1)
          from = #members > asked and '(' .. members[#members]
          for _, member in ipairs(members) do
            local group, digit, chain = L.parts_of_shut(member)
            local stored = string.sub(member, 17, 25)
            places[group .. digit .. chain] = 's' .. string.sub(member, 1, 32)
            read[#read + 1] = { group = group, digit = digit, chain = chain, stored = stored, start = start_in(stored), ticket = string.sub(member, 26, 32) }
          end
        end
        local turn = read[at]
        if not turn or waiting[1] and is_sooner(waiting[1], turn) then
          break
        end
        at = at + 1
        if is_kept_for(key, turn.group, turn.digit, turn.chain) then
          table.insert(waiting, 1, turn)
        elseif not opened[turn.group .. turn.digit .. turn.chain] then
          if turn.start + C.limit_step * C.start_cost >= virtual_time() then
            turn.start = math.max(turn.start, served_until(turn.group))
          end
          hold(turn)
        end
      end
      return table.remove(waiting, 1)
    end
    local function again(turn)
      local prefix = key .. turn.group
      turn.ranks = turn.ranks or { from = '[' .. prefix, at = 1 }
      local ranks = turn.ranks
      while true do
        if ranks.at > #ranks and ranks.from then
          for _, member in ipairs(call('ZRANGEBYLEX', K.ranked, ranks.from, '(' .. prefix .. '\255', 'LIMIT', 0, asked)) do
            ranks[#ranks + 1], ranks.last = member, '(' .. member
          end
          ranks.from = ranks.at <= #ranks and ranks.last
        end
        local member = ranks[ranks.at]
        if not member then
          return
        end
        ranks.at = ranks.at + 1
        local digit, its_ticket, chain = parts_of_ranked(key, turn.group, member)
        if digit and not opened[turn.group .. digit .. chain] then
          return hold({ group = turn.group, digit = digit, chain = chain, stored = turn.stored, start = turn.start, ticket = its_ticket, ranks = ranks })
        end
      end
    end
    return next_turn, again
  end

  -- Opens chains that are shut under keys with room: per key, at most `most` chains whose groups
  -- may be served. Chains of other groups are opened on the way, and no claim examines them again.
  -- Returns the groups of all opened chains. `cost`: returns the cost of one start of a group.
  function L.open_some(most, serves, cost)
    local groups, moves, unroomy, left, starts, opened_now = {}, {}, {}, most + C.limit_step, {}, {}
    L.era = nil
    for _, state in pairs(keys) do
      state.reserved = nil
    end
    -- The start of a group, if it is later than that of a group that comes now: it was served.
    local function served_until(group)
      local stored = group == NO_GROUP and (call('HGET', K.meta, 'plain') or '') or call('ZSCORE', K.next, group) or call('ZSCORE', K.rested, group)
      local start = stored and start_of(stored) or 0
      return start > virtual_time() + math.min(C.start_apart, cost(group)) and start or 0
    end
    local examined = call('ZRANGE', K.roomy, 0, C.limit_step - 1)
    L.are_roomy = #examined > 0
    if #examined == C.limit_step then
      -- The next claim examines the keys after these.
      local behind = {}
      for at, key in ipairs(examined) do
        behind[2 * at - 1], behind[2 * at] = ms(now), key
      end
      call_in_pieces('ZADD', K.roomy, behind)
    end
    for _, key in ipairs(examined) do
      local room, upto = room_of_key(key)
      local asked, is_first = math.min(room, most, left), true
      if room <= 0 then
        unroomy[#unroomy + 1] = key
        if is_waited_for(key) then
          wake_at(key, upto)
        end
      end
      local next_turn, again = turns_under(key, asked, served_until, starts, opened_now)
      while asked > 0 and L.passed < C.limit_step do
        local turn = next_turn()
        if not turn then
          unroomy[#unroomy + 1] = key
          break
        end
        local group, digit, chain = turn.group, turn.digit, turn.chain
        local is_kept = is_kept_for(key, group, digit, chain)
        if is_kept and not is_first then
          break
        end
        opened_now[group .. digit .. chain] = true
        moves[#moves + 1] = { group, digit, chain, 'o' .. turn.ticket .. turn.stored }
        groups[group], left = true, left - 1
        if not serves(group) then
          L.passed = L.passed + 1
        else
          starts[group] = (starts[group] or math.max(served_until(group), virtual_time())) + cost(group)
          asked, is_first = is_kept and 0 or asked - 1, false
          if is_kept then
            state_of(key).reserved = group .. digit .. chain
          end
        end
        asked = math.min(asked, left)
        again(turn)
      end
      if asked == 0 and room > 0 and not next_turn() then
        unroomy[#unroomy + 1] = key
      end
    end
    move(moves)
    call_in_pieces('ZREM', K.roomy, unroomy)
    return groups
  end

  -- Keys stay in `roomy` while they have room and chains are shut under them.
  function L.tidy()
    for _, key in ipairs(call('ZRANGE', K.roomy, 0, C.limit_step - 1)) do
      local room, upto = room_of_key(key)
      if room <= 0 or not is_waited_for(key) then
        call('ZREM', K.roomy, key)
        if room <= 0 and is_waited_for(key) then
          wake_at(key, upto)
        end
      end
    end
  end

  -- The next job of a chain that a claim may take, as a member of `line`. Most chains provide one
  -- job per claim, so few jobs are read at first.
  local function head_of(item)
    if item.next > #item.heads and not item.whole then
      local prefix, asked = item.group .. item.digit .. item.chain, 3 * #item.heads + 2
      local from = #item.heads > 0 and '(' .. item.heads[#item.heads] or '[' .. prefix
      local more = call('ZRANGEBYLEX', K.line, from, '(' .. prefix .. '\255', 'LIMIT', 0, asked)
      item.whole = #more < asked
      for _, member in ipairs(more) do
        item.heads[#item.heads + 1] = member
      end
    end
    return item.heads[item.next]
  end

  -- The cost of a round of a claim. The next round may examine as much again. To shut a chain takes
  -- as much time as to examine six other entries.
  function L.next_round()
    local steps = 6 * L.looked + L.passed + math.min(call('ZCARD', K.roomy), C.limit_step)
    L.looked, L.passed = 0, 0
    return steps
  end

  -- Whether a claim may examine further chains.
  local function may_look()
    L.looked = L.looked + 1
    return L.looked <= C.limit_step + 500
  end

  -- The next job of the open chains of a group and a digit. Chains that cannot start a job are
  -- shut. `only`: the job that blocks the group line. `its_chain`: its chain.
  function L.next_of(entry, digit, asked, only, its_chain)
    entry.chains = entry.chains or {}
    local queue = entry.chains[digit]
    if not queue then
      queue = { items = {}, at = 1, from = '[' .. entry.group .. digit }
      if only and L.is_open(entry.group, digit, its_chain) then
        queue.items[1] = { group = entry.group, digit = digit, chain = its_chain, heads = { only }, next = 1, whole = true, is_only = true }
      end
      queue.from = not only and queue.from or nil
      entry.chains[digit] = queue
    end
    local prefix = #entry.group + 1
    while true do
      if queue.at > #queue.items and queue.from then
        local found = call('ZRANGEBYLEX', K.open, queue.from, '(' .. entry.group .. digit .. '\255', 'LIMIT', 0, asked)
        queue.from = #found == asked and '(' .. found[#found] or nil
        for _, member in ipairs(found) do
          local chain = string.sub(member, prefix + 8)
          -- The place of a chain that has waited is longer.
          if byte(member, prefix + 1) > 0 then
            places[entry.group .. digit .. chain] = 'o' .. string.sub(member, prefix + 1, prefix + 7)
          end
          queue.items[#queue.items + 1] = { group = entry.group, digit = digit, chain = chain, heads = {}, next = 1 }
        end
      end
      local item = queue.items[queue.at]
      if not item then
        return nil
      end
      queue.at = queue.at + 1
      local member = head_of(item)
      if not member then
        -- All of its jobs were picked.
        L.leave(entry.group, digit, item.chain)
      else
        local id = string.sub(member, prefix + #item.chain + 8)
        local key, upto = L.blocker(item.chain, id)
        key = key or waits_behind(entry.group, digit, item.chain, item.is_only)
        local place = entry.group .. digit .. item.chain
        if key and not may_look() then
          return nil
        elseif key then
          shut({ { entry.group, digit, item.chain, under(key, entry.start, waited_at(place)) } }, { { key, upto } })
        else
          L.take(item.chain, id)
          item.next = item.next + 1
          queue.items[#queue.items + 1] = item
          L.picks = L.picks + 1
          L.picked[place] = { entry, digit, item, L.picks }
          return member
        end
      end
    end
  end

  -- Updates the chains after the picked jobs were taken or not: empty chains are removed, chains
  -- whose limits have no room are shut, and the others move to the end, in the order of their last
  -- picks. A chain of which no job was taken keeps its place.
  function L.settle_picks(picks, passed, admitted, parts)
    local loose, moves, shut_under, started, served = {}, {}, {}, {}, {}
    for at, pick in ipairs(picks) do
      local group, id, _, chain, digit = parts(pick.member)
      if at <= passed and admitted[id] then
        started[group .. digit .. chain] = true
      elseif #chain > 1 then
        L.take(chain, id, true)
        for _, key in ipairs(keys_of(chain)) do
          loose[#loose + 1] = key
        end
      end
    end
    L.recheck_keys(loose)
    local touched = {}
    for place, picked in pairs(L.picked) do
      touched[#touched + 1], picked[5] = picked, place
    end
    table.sort(touched, function(one, other)
      return one[4] < other[4]
    end)
    for _, picked in ipairs(touched) do
      local entry, digit, item = unpack(picked)
      local chain, head = item.chain, nil
      if started[picked[5]] and #(place_of(picked[5]) or '') > 8 then
        for _, key in ipairs(keys_of(chain)) do
          served[#served + 1] = { key, entry.group, stored_start(entry.start) }
        end
      end
      if passed == #picks and not item.is_only and (item.whole or item.next <= #item.heads) then
        head = item.heads[item.next]
      else
        head = has_jobs(entry.group, digit, chain)
      end
      if not head then
        moves[#moves + 1] = { entry.group, digit, chain, false }
      elseif L.is_open(entry.group, digit, chain) then
        local key, upto = L.blocker(chain, string.sub(head, #entry.group + #chain + 9))
        local stays = not started[picked[5]]
        if stays then
          L.picked[picked[5]] = nil
        end
        if key then
          shut_under[#shut_under + 1] = { key, upto }
          moves[#moves + 1] = { entry.group, digit, chain, under(key, entry.start, waited_at(picked[5])) }
        elseif not stays then
          moves[#moves + 1] = { entry.group, digit, chain, 'o' .. ticket() }
        end
      end
    end
    shut(moves, shut_under)
    for _, of in ipairs(served) do
      local key, group, start = unpack(of)
      local digit, _, its_chain, place = first_of(key, group)
      if digit and is_before(string.sub(place, 18, 26), start) then
        put({ { group, digit, its_chain, with_start(place, start) } })
      end
    end
    L.picked = {}
    L.write()
    L.tidy()
  end

  L.has_jobs = has_jobs

  -- The slots of a running job, as members of `holders`.
  function L.slots(chain, id)
    local slots = keys_of(chain)
    for at, key in ipairs(slots) do
      slots[at] = '\255' .. key .. '\0' .. id
    end
    return slots
  end

  return L
end
