-- Tags: `tags` has a member for each tag of a job, a digest of its name and value (8 bytes) and the id. All have the same score, so that they stand by their bytes. Which tags a
-- job has is in its envelope alone. The bit `i` tells of it.
--- include script/tools, script/has

-- Whether jobs that are stored now may have tags. Scripts that store jobs say so.
local may_have_tags = false

local function digest_of_tag(name, value)
  return (string.gsub(string.sub(redis.sha1hex(name .. '=' .. value), 1, 16), '%x%x', function(hex)
    return string.char(tonumber(hex, 16))
  end))
end

-- Adds what `tags` has of a job with this envelope to a list. The map of an envelope is behind its task's name and its time.
local function members_of(id, envelope, members)
  local from = envelope and #envelope > 1 and 9 + byte(envelope, 2)
  if not from or not string.find(envelope, '\161g', from, true) then
    return
  end
  local map, found = unpacked(string.sub(envelope, from)), {}
  for name, value in pairs(map and type(map.g) == 'table' and map.g or {}) do
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
    mark('i')
    many('ZADD', K.tags, scored)
  end
end

-- Jobs are stored: pairs of an id and an envelope.
local function add_tags(pairs_)
  local members = {}
  for at = 1, may_have_tags and #pairs_ or 0, 2 do
    members_of(pairs_[at], pairs_[at + 1], members)
  end
  add_members(members)
end

-- Jobs go, or get another envelope. They are still stored.
local function drop_tags(ids)
  if not has('i') then
    return
  end
  local members = {}
  for from = 1, #ids, PIECE do
    for at, envelope in ipairs(call('HMGET', K.jobs, unpack(ids, from, math.min(from + PIECE - 1, #ids)))) do
      members_of(ids[from + at - 1], envelope, members)
    end
  end
  many('ZREM', K.tags, members)
end

-- Stores a job, or gives it another envelope.
local function put_job(id, envelope)
  drop_tags({ id })
  call('HSET', K.jobs, id, envelope)
  add_tags({ id, envelope })
end

-- Stores jobs of new ids: pairs of an id and an envelope.
local function put_jobs(pairs_)
  put_all(K.jobs, pairs_)
  add_tags(pairs_)
end
