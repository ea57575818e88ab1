-- Data of a newer library is left alone.
local schema = call('HGET', K.meta, 'schema')
if schema and schema ~= C.schema then
  return redis.error_reply('SCHEMA ' .. (string.match(schema, '^%d+$') or 'unknown'))
end
