-- Edits: what a waiting job releases and acquires when its group, limits or unique key change. It
-- is in no line during the edit.
--- include doors/keys, doors/groups

-- Changes the group or the limits. The job may block the line of its old group.
local function replace_group(id, own_group, group, chain, cost)
  if group ~= own_group then
    unblock_groups({ id }, false)
  end
  call('HDEL', K.grouped, id)
  call('HDEL', K.costs, id)
  if group ~= '' or chain ~= NO_LIMITS then
    store_group_of(id, group ~= '' and group or nil, chain, cost)
  end
end

-- Replaces the stored unique key by another one, which is free. A key with a hold time keeps the
-- end of that time.
local function replace_key(id, noted, key)
  local own, hold, first = key_in(noted)
  local stored = call('HGET', K.unique, own) or ''
  local upto, duration, holder = string.match(stored, '^@(%d+):(%d+):(.*)$')
  put_rare('u', K.keyed, id, key .. hold .. ms(first > 0 and first or now))
  call('HDEL', K.unique, key)
  call('ZREM', K.within, key)
  if hold == 'w' then
    if holder == id then
      release_key(own)
      put_rare('u', K.unique, key, '@' .. upto .. ':' .. duration .. ':' .. id)
      call('ZADD', K.within, upto, key)
    end
    return
  end
  if stored == id then
    release_key(own)
  end
  put_rare('u', K.unique, key, id)
end
