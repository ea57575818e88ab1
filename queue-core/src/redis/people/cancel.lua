-- R13. ARGV: why or '', ids. Answers for each id: 0 there is none, 1 cancelled, 2 cancelled while active.
--- include script/prelude, script/clock, script/bits, people/cancelling

return cancel_jobs({ unpack(ARGV, 2) }, ARGV[1] ~= '' and ARGV[1] or nil)
