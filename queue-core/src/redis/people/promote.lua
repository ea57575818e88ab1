-- scheduled or retry -> the tail of ready, before their time.
--
-- Inputs
--   ids.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, people/promoting

return promote_jobs(ARGV)
