-- Stops claims, or lets them go on. ARGV: '1' or '0'.
--- include script/prelude, script/clock, script/bits, script/hint

if ARGV[1] == '1' then
  mark('h')
end
call('HSET', K.meta, 'paused', ARGV[1])
if ARGV[1] == '0' then
  if bits then
    bits = string.gsub(bits, 'h', '')
    call('HSET', K.meta, 'bits', bits)
  end
  hint()
end
return 1
