-- How runs of a queue have failed. Answers: now; fingerprints, and of each what is kept.
--- include script/prelude, script/clock, script/schema

return { now, call('HGETALL', K.failures) }
