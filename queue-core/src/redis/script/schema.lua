-- Rejects a queue whose data has another schema number.
local schema = call('HGET', K.meta, 'schema')
if schema and schema ~= C.schema then
  return redis.error_reply('SCHEMA ' .. (string.match(schema, '^%d+$') or 'unknown'))
end
