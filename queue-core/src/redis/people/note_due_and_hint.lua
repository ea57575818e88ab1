-- What scripts do at last that have changed where jobs are.
--- include doors/groups, script/first_due, script/hint

-- Stores when the next job is due, and notifies the workers if there is work now.
local function note_due_and_hint()
  update_due()
  if opened then
    hint()
  end
end
