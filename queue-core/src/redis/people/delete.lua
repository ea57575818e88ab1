-- Removes jobs that are not active.
--
-- Inputs
--   ids.
-- Errors
--   FEATURE: a feature bit that this library does not know
--   SCHEMA: another schema number
--- include script/prelude, script/clock, script/bits, people/remove

return remove_jobs(ARGV)
