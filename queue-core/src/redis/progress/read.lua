-- Reads the progress and the log of a job.
-- ARGV[1]  id  the id of the job
-- Returns: false if there is no such job; or its progress and its log, each '' if there is none
--- include script/prelude

local id = ARGV[1]
-- Uses only commands that the server user of a dashboard may call.
if not call('HGET', K.jobs, id) then
  return false
end
return { call('HGET', K.progress, id) or '', call('HGET', K.logs, id) or '' }
