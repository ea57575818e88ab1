-- Takes jobs from the one list that there is. It is done before anything is written: where another program has made something else of the
-- list, the script stops here, and no ending is carried out without an answer. Nor is a job that ends just now one that may be handed out.
local found, waits = {}, 0
if wanted > 0 then
  -- Only jobs that are large may not fit.
  found = max_bytes and call('LRANGE', K.ready2, '0', ms(wanted - 1)) or not max_bytes and call('LPOP', K.ready2, ARGV[4]) or {}
end
local passed = admit(found)
if max_bytes and passed > 0 then
  call('LPOP', K.ready2, ms(passed))
end
-- Who got less than he asked for has taken the last.
if full then
  waits = 1
elseif #found == wanted then
  waits = call('EXISTS', K.ready2)
end
