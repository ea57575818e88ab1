-- scheduled or retry -> the tail of ready, before their time. ARGV: ids.
--- include script/prelude, script/clock, script/bits, people/promoting

return promote_jobs(ARGV)
