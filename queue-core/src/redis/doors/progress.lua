-- What handlers have told of jobs: `progress` and `logs`. It goes with the job. The bit `j` tells
-- of it.
--- include script/tools, script/has

local function delete_progress(ids)
  if has('j') then
    many('HDEL', K.progress, ids)
    many('HDEL', K.logs, ids)
  end
end
