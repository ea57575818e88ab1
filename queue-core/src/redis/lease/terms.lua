-- The *term* of a lease is its length: what its lane was registered with. No renewal lasts longer, so a deadline that lies further
-- ahead was written by a clock that has been put back since, or by a server whose clock was faster.

-- Whether the deadline of a lane lies further ahead than its lease is long. A lane without a term is not known to be so.
local function is_ahead(lane, deadline)
  local term = whole(call('ZSCORE', K.terms, lane) or '')
  return term > 0 and whole(deadline) < FOREVER and whole(deadline) > now + term and term
end
