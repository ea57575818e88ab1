-- Entries of a log become jobs. Other programs may have added them: what cannot be read is a dead letter, with its bytes, and holds nobody up.
--- include topic/entry

-- A text as MessagePack writes binary data.
local function binary(text)
  if #text < 256 then
    return '\196' .. string.char(#text) .. text
  elseif #text < 65536 then
    return '\197' .. bytes_of(#text, 2) .. text
  end
  return '\198' .. bytes_of(#text, 4) .. text
end

-- The envelope of a job, see `docs/storage.md`.
local function envelope_of(event, at, payload, headers)
  local map = string.find(headers, '^[\128-\143\222]') and '\130\161p' .. binary(payload) .. '\161h' .. headers or '\129\161p' .. binary(payload)
  return '\1' .. string.char(#event) .. event .. bytes_of(at, 6) .. map
end

local function is_name(event)
  return #event <= 128 and string.find(event, '^[%w._-]+$') ~= nil
end

-- Why nobody can read an event, or nothing.
local function problem_of(event, payload)
  if not payload then
    return 'the entry has no field `payload`'
  elseif #payload > C.most_payload then
    return 'its payload is larger than ' .. C.most_payload .. ' bytes'
  elseif not event then
    return 'the entry has no field `type`, and its subscription knows more than one, or none'
  elseif not is_name(event) then
    return 'its type is no name: letters, digits and `.`, `_`, `-`, at most 128'
  elseif byte(payload) == 123 then -- '{'
    local is_json, problem = pcall(cjson.decode, payload)
    return not is_json and 'its payload is no JSON: ' .. tostring(problem) or nil
  elseif not string.find(payload, '^[\128-\143\222\223]') then
    return 'its payload is neither a JSON object nor a MessagePack map'
  end
end

-- Makes jobs of entries, but of those that the subscription passes over. Gives the ids of those that are to be pushed, and how many bytes the entries had.
local function take(entries, of)
  local types, known = of.types, {}
  for event in string.gmatch(types, '[^,]+') do
    known[event] = true
  end
  local ids, bodies, dead, seen, size = {}, {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    local id, at, fields, bytes, fits = read_entry(entry)
    size = size + bytes
    local is_given = byte(id) == 61 -- '='
    if of.unknown == 'skip' and types ~= '-' and fields.type and is_name(fields.type) and not known[fields.type] then
      of.skipped = of.skipped + 1
    elseif not seen[id] and call('HEXISTS', K.jobs, id) == 0 and not (is_given and call('HEXISTS', K.given, id) == 1) then
      seen[id] = true
      local event = fields.type or types ~= '-' and not string.find(types, ',', 1, true) and types or nil
      local problem = problem_of(event, fields.payload) or not fits and 'the id of its entry is too large: its time or its number fits into no id of a job' or nil
      local shown = event and string.find(string.sub(event, 1, 128), '^[%w._-]+$') and string.sub(event, 1, 128) or 'unreadable'
      bodies[#bodies + 1], bodies[#bodies + 2] = id, envelope_of(shown, at, fields.payload or '', fields.headers or '')
      if #bodies[#bodies] > C.large then
        mark('l')
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
          note_group(id, bytes_of(#group, 2) .. group)
        end
      end
    end
  end
  put_all(K.jobs, bodies)
  for _, letter in ipairs(dead) do
    add_failure(letter[1], letter[2])
    end_dead(letter[1], 'undecodable')
  end
  count('enqueued', #dead)
  return ids, size
end
