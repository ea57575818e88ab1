-- Progress and log lines that handlers have reported: `progress` and `logs`. They are deleted with
-- the job. The feature bit is `j`.
--- include script/tools, script/has

local function delete_progress(ids)
  if has('j') then
    many('HDEL', K.progress, ids)
    many('HDEL', K.logs, ids)
  end
end
