-- Repeats the last answer of the lane (R5) and writes nothing. A job that the lane has lost since
-- then is returned with an empty envelope.
local claim, stale_text, handed = string.match(entry, '^%d+:?(%d*):?([%d,]*):?(.*)$')
for _, id in ipairs(handed ~= '' and unpacked(handed) or {}) do
  if type(id) == 'string' and is_id(id) then
    ids[#ids + 1] = id
  end
end
local described = { read_envelopes_and_counts(ids) }
local receipts = #ids > 0 and call('HMGET', K.active, unpack(ids))
for at = 1, #ids do
  if receipts[at] ~= lane .. ':' .. claim then
    described[1][at] = ''
  end
end
due = due or first_due()
return write_answer(claim ~= '' and claim or '0', described, waiting_work(false), stale_text)
