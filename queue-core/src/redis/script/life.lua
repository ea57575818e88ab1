-- The life of this server: another one may lack what was seen on the last.
local function life()
  local told = redis.pcall('INFO', 'server', 'replication')
  told = type(told) == 'string' and told or ''
  local run, history = string.match(told, 'run_id:(%x+)'), string.match(told, 'master_replid:(%x+)')
  -- Who may not know it gets no mark that holds.
  return run and history and run .. history or ''
end

-- The same with the number of times that a mark of watchers began to stand: in between nothing was
-- told.
local function life_of_follow_mark(begun)
  local own = life()
  return own ~= '' and own .. '.' .. begun or ''
end
