-- R13: cancels jobs.
--
-- Inputs
--   why or '', ids.
-- Output
--   for each id: 0 there is none, 1 cancelled, 2 cancelled while active.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, people/cancelling

return cancel_jobs({ unpack(ARGV, 2) }, ARGV[1] ~= '' and ARGV[1] or nil)
