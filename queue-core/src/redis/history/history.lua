-- Of which tasks there is a history, and which releases were seen. Answers: now, names, releases and when each was first seen.
--- include script/prelude, script/clock, script/schema

return { now, call('HKEYS', K.tasks), call('HGETALL', K.deployed) }
