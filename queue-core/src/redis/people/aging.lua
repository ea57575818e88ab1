-- Changes the interval of aging.
-- ARGV[1]  read    the stored form that was read, '' for none
-- ARGV[2]  wanted  the new stored form, '' for none
-- Returns: 'SET'; 'MORE' if the call has to be repeated; or a list with the present stored form
-- Errors: BEHIND, FEATURE, SCHEMA
--- include script/prelude, script/clock, script/bits, script/guard, script/tools

local stored = call('HGET', K.meta, 'aging') or ''
if stored ~= ARGV[2] then
  if stored ~= ARGV[1] then
    return { stored }
  elseif ARGV[2] == '' then
    call('HDEL', K.meta, 'aging')
  else
    local behind = unknown_to_a_lane('op')
    if behind then
      return redis.error_reply('BEHIND ' .. behind)
    end
    -- Rising jobs move to the lists of other priorities.
    set_bit('p')
    set_bit('o')
    call('HSET', K.meta, 'aging', ARGV[2])
    if not head[1] then
      call('HSET', K.meta, 'schema', C.schema)
    end
  end
end
if whole(string.match(ARGV[2], '^%d+') or '') == 0 then
  -- Aging has ended. The ready jobs are removed from `rising` in bounded steps.
  call_in_pieces('ZREM', K.rising, call('ZRANGE', K.rising, 0, PIECE - 1))
  if call('EXISTS', K.rising) == 1 then
    return 'MORE'
  end
end
return 'SET'
