-- Progress and log lines that handlers have reported: `progress` and `logs`. They are deleted with
-- the job. The feature bit is `j`.
--- include script/tools, script/has

local function delete_progress(ids)
  if has('j') then
    call_in_pieces('HDEL', K.progress, ids)
    call_in_pieces('HDEL', K.logs, ids)
  end
end
