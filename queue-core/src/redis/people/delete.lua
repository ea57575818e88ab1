-- Removes jobs that are not active. ARGV: ids.
--- include script/prelude, script/clock, script/bits, people/remove, script/first_due

local answers = {}
for at, id in ipairs(ARGV) do
  answers[at] = remove(id) and 1 or 0
end
look_due()
if opened then
  hint()
end
return answers
