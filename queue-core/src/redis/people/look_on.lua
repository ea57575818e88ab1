-- What scripts do at last that have changed where jobs are.
--- include doors/groups, script/first_due, script/hint

-- Looks when the next job is due, and tells the workers if a line was opened.
local function look_on()
  look_due()
  if opened then
    hint()
  end
end
