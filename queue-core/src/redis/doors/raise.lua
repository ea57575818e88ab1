-- Raises jobs that have waited for one interval of aging by one priority, to the end of its list.
-- One call raises at most as many jobs as may become due at once.
--- include doors/ready

-- Removes a ready job from its place. Returns its group if it leaves a chain: the caller pushes the
-- job to its new place, and then reviews the group.
local function remove_from_ready(id)
  local stored = has('g') and call('HGET', K.grouped, id)
  local member = stored and member_of(id, stored)
  local list = list_of(levels_of({ id }, 1, 1)[1])
  if member then
    local group, _, is_suspect, chain, digit = parts_of(member)
    call('ZREM', K.line, member)
    if #chain > 1 and not is_suspect then
      limits().leave(group, digit, chain, member)
      return group
    end
  elseif peek_heads(list, 1)[1] == id then
    pop_heads(list, 1)
  else
    add_tombstone(id)
  end
end

local function raise_aged_jobs()
  local left = C.due_items
  for _ = 1, aging_interval() > 0 and 3 or 0 do
    local due_ids = left > 0 and call('ZRANGEBYSCORE', K.rising, '-inf', '(' .. ms(now + 1), 'WITHSCORES', 'LIMIT', 0, left) or {}
    local ids, levels, later, out, groups = {}, {}, {}, {}, {}
    for at = 1, #due_ids, 2 do
      local id = due_ids[at]
      local level = list_of(levels_of({ id }, 1, 1)[1]) - 1
      -- A suspect is served before all other jobs, so it does not rise.
      if level < 0 or call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.crashes, id) == 1 then
        out[#out + 1] = id
      else
        groups[#groups + 1] = remove_from_ready(id)
        ids[#ids + 1], levels[#levels + 1], levels[#levels + 2] = id, id, ms(level)
        if level == 0 then
          out[#out + 1] = id
        else
          later[#later + 1], later[#later + 2] = math.floor(due_ids[at + 1]) + aging_interval(), id
        end
      end
    end
    if #due_ids == 0 then
      return
    end
    left = left - #due_ids / 2
    set_fields(K.risen, levels)
    push_to_lists(ids, false)
    for _, group in ipairs(groups) do
      review(group)
    end
    call_in_pieces('ZREM', K.rising, out)
    local number = #later > 0 and call('HINCRBY', K.meta, 'rise_tail', #later / 2)
    for at = 1, #later, 2 do
      later[at] = next_raise_at(later[at], number - (#later - at - 1) / 2)
    end
    call_in_pieces('ZADD', K.rising, later)
  end
end
