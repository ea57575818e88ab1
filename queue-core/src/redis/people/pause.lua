-- Stops claims, or lets them go on. ARGV: '1' or '0'.
note_plain(nil)
call('HSET', K.meta, 'paused', ARGV[1])
if ARGV[1] == '0' then
  hint()
end
return 1
