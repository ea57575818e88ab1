-- Everything about jobs. ARGV: ids. Answers per id what `shown` gives.
--- include script/prelude, people/shown

local answers = {}
for at, id in ipairs(ARGV) do
  answers[at] = shown(id)
end
return answers
