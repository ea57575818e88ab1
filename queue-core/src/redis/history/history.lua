-- Of which tasks there is a history. Answers: now, names.
--- include script/prelude, script/clock, script/schema

return { now, call('HKEYS', K.tasks) }
