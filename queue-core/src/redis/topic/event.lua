-- Makes jobs of the entries of a log. Other programs may have added entries. An unreadable entry
-- becomes a dead letter with its bytes, and does not block later entries.
--- include topic/entry, doors/tags, script/guard

-- The MessagePack header of binary data of this length.
local function binary_header(length)
  if length < 256 then
    return '\196' .. string.char(length)
  elseif length < 65536 then
    return '\197' .. bytes_of(length, 2)
  end
  return '\198' .. bytes_of(length, 4)
end

-- Whether a text is UTF-8. Each valid multi-byte character is replaced by a space, and then no byte
-- of such a character may remain.
local function is_text(text)
  if string.find(text, '[\128-\255]') then
    for _, character in ipairs({
      '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]',
      '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]', '[\194-\223][\128-\191]',
    }) do
      text = string.gsub(text, character, ' ')
    end
  end
  return not string.find(text, '[\128-\255]')
end

-- Decodes the headers or tags of an entry: texts by name. Returns nothing if the map is invalid,
-- because another program may have added it. It may have at most `most` texts with `bytes` bytes in
-- total.
local function texts_of(stored, most, bytes)
  local map, n, size = unpacked(stored), 0, 0
  for name, value in pairs(map or {}) do
    if type(name) ~= 'string' or type(value) ~= 'string' or not is_text(name) or not is_text(value) then
      return nil
    end
    n, size = n + 1, size + #name + #value
    if n > most or size > bytes then
      return nil
    end
  end
  return n > 0 and map or nil
end

-- The tags of an entry in the format of an envelope, or nothing. They are added to the index only
-- if every lane knows the index.
local function tags_of(stored)
  local map = texts_of(stored, C.most_tags, math.huge)
  for name, value in pairs(map or {}) do
    local is_tag = string.find(name, '^[%w._-]+$') and #name <= 64 and #value > 0 and #value <= 256
    if not is_tag or string.find(value, '[%c"]') or string.find(value, '\194[\128-\159]') then
      return nil
    end
  end
  if not map then
    return nil
  end
  may_have_tags = may_have_tags or not unknown_to_a_lane('i')
  return cmsgpack.pack(map)
end

-- The envelope of a job, see `docs/storage.md`.
local function envelope_of(kind, at, payload, headers, tags)
  local fields, rest = 129, ''
  headers = headers and texts_of(headers, C.most_headers, C.header_bytes)
  if headers then
    fields, rest = fields + 1, '\161h' .. cmsgpack.pack(headers)
  end
  tags = tags and tags_of(tags)
  if tags then
    fields, rest = fields + 1, rest .. '\161g' .. tags
  end
  return kind.head .. time_of(at) .. string.char(fields) .. '\161p' .. binary_header(#payload) .. payload .. rest
end

local function is_name(event)
  return #event <= 128 and string.find(event, '^[%w._-]+$') ~= nil
end

-- The common data of all events of a type: the beginning of their envelopes, and the reason why
-- they are unreadable, or nothing.
local function kind_of(event)
  local shown, problem = event, nil
  if not event then
    shown, problem = 'unreadable', 'the entry has no field `type`, and its subscription knows more than one, or none'
  elseif not is_name(event) then
    shown, problem = string.sub(event, 1, 128), 'its type is no name: letters, digits and `.`, `_`, `-`, at most 128'
    shown = is_name(shown) and shown or 'unreadable'
  end
  return { head = '\1' .. string.char(#shown) .. shown, problem = problem }
end

-- The reason why an event is unreadable, or nothing.
local function problem_of(kind, payload)
  if not payload then
    return 'the entry has no field `payload`'
  elseif #payload > C.most_payload then
    return 'its payload is larger than ' .. C.most_payload .. ' bytes'
  elseif kind.problem then
    return kind.problem
  end
  local first = byte(payload)
  if first == 123 then -- '{'
    local is_json, problem = pcall(cjson.decode, payload)
    return not is_json and 'its payload is no JSON: ' .. tostring(problem) or nil
  elseif not first or first < 128 or first > 143 and first ~= 222 and first ~= 223 then
    return 'its payload is neither a JSON object nor a MessagePack map'
  end
end

-- Makes jobs of entries, except of those that the subscription skips. Returns the ids to push, and
-- the size of the entries in bytes.
local function make_jobs(entries, of)
  local types, known, kinds = of.types, {}, {}
  for event in string.gmatch(types, '[^,]+') do
    known[event] = true
  end
  local only = types ~= '-' and not string.find(types, ',', 1, true) and types or nil
  local skips = of.unknown == 'skip' and types ~= '-'
  local ids, bodies, dead, seen, size = {}, {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    local id, at, fields, bytes, fits = read_entry(entry)
    size = size + bytes
    local is_given = byte(id) == 61 -- '='
    if skips and fields.type and not known[fields.type] and is_name(fields.type) then
      of.skipped = of.skipped + 1
    elseif not seen[id] and call('HEXISTS', K.jobs, id) == 0 and not (is_given and call('HEXISTS', K.given, id) == 1) then
      seen[id] = true
      local event = fields.type or only
      local kind = kinds[event or false] or kind_of(event)
      kinds[event or false] = kind
      local problem = problem_of(kind, fields.payload) or not fits and 'the id of its entry is too large: its time or its number fits into no id of a job' or nil
      bodies[#bodies + 1], bodies[#bodies + 2] = id, envelope_of(kind, at, fields.payload or '', fields.headers, fields.tags)
      if #bodies[#bodies] > C.large then
        set_bit('l')
      end
      if is_given then
        call('HSET', K.given, id, fields.digest or '0')
      end
      if problem then
        dead[#dead + 1] = { id, problem }
      else
        ids[#ids + 1] = id
        local group = fields.key
        if group and group ~= '' and #group <= 256 then
          store_group_of(id, bytes_of(#group, 2) .. group)
        end
      end
    end
  end
  put_jobs(bodies)
  for _, letter in ipairs(dead) do
    add_failure(letter[1], letter[2])
    end_dead(letter[1], 'undecodable')
  end
  count('enqueued', #dead)
  return ids, size
end
