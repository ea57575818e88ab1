-- Data of a newer library is left alone.
local schema = call('HGET', K.meta, 'schema')
if schema and schema ~= SCHEMA then
  return too_new(schema)
end
