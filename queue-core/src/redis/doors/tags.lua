-- Tags. `tags` has a member for each tag of a job: a digest of name and value (8 bytes), and the
-- id. All members have the same score, so they are sorted by their bytes. Only the envelope has the
-- complete tags of a job. The feature bit is `i`.
--- include script/tools, script/has

-- Whether the jobs that this script stores may have tags. Scripts that store jobs set it.
local may_have_tags = false

local function digest_of_tag(name, value)
  local hex = redis.sha1hex(name .. '=' .. value)
  return struct.pack('>I4I4', tonumber(string.sub(hex, 1, 8), 16), tonumber(string.sub(hex, 9, 16), 16))
end

-- The tags in the map of an envelope, which begins after the byte `at`. The server's MessagePack
-- library cannot decode binary data. For this reason the payload is skipped.
local function tags_in(envelope, at)
  local fields, key = byte(envelope, at + 1) - 128, nil
  if fields == 94 then
    fields, at = byte(envelope, at + 2) * 256 + byte(envelope, at + 3), at + 2
  end
  at = at + 1
  for _ = 1, fields do
    at, key = cmsgpack.unpack_one(envelope, at)
    local width = (byte(envelope, at + 1) or 0) - 195
    if key == 'g' then
      return select(2, cmsgpack.unpack_one(envelope, at))
    elseif width >= 1 and width <= 3 then
      -- The length of binary data has 1, 2 or 4 bytes.
      local length, behind = 0, at + 1 + (width == 3 and 4 or width)
      for place = at + 2, behind do
        length = length * 256 + byte(envelope, place)
      end
      at = behind + length
    else
      at = cmsgpack.unpack_one(envelope, at)
    end
  end
end

-- Adds the members of `tags` for a job with this envelope to a list. The map of an envelope follows
-- its task's name and its time.
local function members_of(id, envelope, members)
  local from = envelope and #envelope > 1 and 8 + byte(envelope, 2)
  if not from or not string.find(envelope, '\161g', from + 1, true) then
    return
  end
  local ok, tags = pcall(tags_in, envelope, from)
  local found = {}
  for name, value in pairs(ok and type(tags) == 'table' and tags or {}) do
    if type(name) ~= 'string' or type(value) ~= 'string' or #found == C.most_tags then
      return
    end
    found[#found + 1] = digest_of_tag(name, value) .. id
  end
  for _, member in ipairs(found) do
    members[#members + 1] = member
  end
end

local function add_members(members)
  local scored = {}
  for at, member in ipairs(members) do
    scored[2 * at - 1], scored[2 * at] = '0', member
  end
  if #members > 0 then
    set_bit('i')
    call_in_pieces('ZADD', K.tags, scored)
  end
end

-- Adds the tags of new jobs: pairs of an id and an envelope.
local function add_tags(pairs_)
  local members = {}
  for at = 1, may_have_tags and #pairs_ or 0, 2 do
    members_of(pairs_[at], pairs_[at + 1], members)
  end
  add_members(members)
end

-- Removes the tags of jobs that are deleted or get another envelope. The jobs must still be stored.
-- Large envelopes are read in small pieces, because the memory of a script is limited.
local function drop_tags(ids)
  if not has('i') then
    return
  end
  local members, piece = {}, has('l') and 16 or PIECE
  for from = 1, #ids, piece do
    for at, envelope in ipairs(call('HMGET', K.jobs, unpack(ids, from, math.min(from + piece - 1, #ids)))) do
      members_of(ids[from + at - 1], envelope, members)
    end
  end
  call_in_pieces('ZREM', K.tags, members)
end

-- Stores a job, or replaces its envelope.
local function put_job(id, envelope)
  drop_tags({ id })
  call('HSET', K.jobs, id, envelope)
  add_tags({ id, envelope })
end

-- Stores new jobs: pairs of an id and an envelope.
local function put_jobs(pairs_)
  set_fields(K.jobs, pairs_)
  add_tags(pairs_)
end
