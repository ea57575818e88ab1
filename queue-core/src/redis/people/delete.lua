-- Removes jobs that are not active. ARGV: ids.
--- include script/prelude, script/clock, script/bits, people/remove

return remove_jobs(ARGV)
