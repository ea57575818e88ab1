-- The life of this server: another one may lack what was seen on the last.
local function life()
  local info = redis.pcall('INFO', 'server', 'replication')
  info = type(info) == 'string' and info or ''
  local run, history = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid:(%x+)')
  -- Who may not know it gets no mark that holds.
  return run and history and run .. history or ''
end

-- The same with the count of marks of watchers: without a mark, transitions are not recorded.
local function life_of_follow_mark(begun)
  local own = life()
  return own ~= '' and own .. '.' .. begun or ''
end
