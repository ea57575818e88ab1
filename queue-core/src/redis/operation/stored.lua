-- Operations: changes of all jobs that match a filter, in steps. `operations` has three lines for
-- each id. The first has words: kind, state, step, the times of its start, its last step and its
-- end, the numbers of all, examined, changed, skipped and failed jobs, runner, position. The second
-- is its description. The third is the reason why it has failed.

local function operation_of(id)
  local stored = call('HGET', K.operations, id) or ''
  local words, texts, problem = string.match(stored, '^([^\n]*)\n([^\n]*)\n(.*)$')
  local of = { texts = texts, problem = problem, stored = stored }
  for word in string.gmatch(words or '', '%S+') do
    of[#of + 1] = word
  end
  if #of ~= 13 then
    return nil
  end
  of.kind, of.state, of.step, of.started, of.stepped, of.ended, of.total, of.examined, of.changed, of.skipped, of.failed, of.runner, of.position = unpack(of)
  return of
end

local function put_operation(id, of)
  local words = { of.kind, of.state, of.step, of.started, of.stepped, of.ended, of.total, of.examined, of.changed, of.skipped, of.failed, of.runner, of.position }
  of.stored = table.concat(words, ' ') .. '\n' .. of.texts .. '\n' .. of.problem
  call('HSET', K.operations, id, of.stored)
end

-- Adds to a number in text form.
local function add_to_text(text, by)
  return ms(whole(text) + by)
end
