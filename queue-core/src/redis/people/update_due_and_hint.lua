-- The last step of scripts that have moved jobs.
--- include doors/groups, script/first_due, script/hint

-- Stores when the next job is due, and notifies workers if a job may start now.
local function update_due_and_hint()
  update_due()
  if opened then
    hint()
  end
end
