-- Data of a newer library is left alone.
local schema = call('HGET', K.meta, 'schema')
if schema and schema ~= SCHEMA then
  return redis.error_reply('SCHEMA ' .. schema)
end
