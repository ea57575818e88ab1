-- Identifies the run and the replication history of this server. After a failover or a restart it
-- differs, and data of the earlier server may be missing.
local function incarnation()
  local info = redis.pcall('INFO', 'server', 'replication')
  info = type(info) == 'string' and info or ''
  local run, history = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid:(%x+)')
  -- A user without the right to call INFO gets '', which is never a valid mark.
  return run and history and run .. history or ''
end

-- The same with the number of marks that watchers have set. Without a mark, transitions are not
-- recorded.
local function incarnation_of_follow_mark(begun)
  local own = incarnation()
  return own ~= '' and own .. '.' .. begun or ''
end
