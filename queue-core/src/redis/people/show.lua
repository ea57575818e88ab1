-- Reads all that is stored of jobs.
-- ARGV[1..]  ids  the ids of the jobs
-- Returns: for each id the answer of `shown`. The answer ends after one mebibyte and one job.
--- include script/prelude, people/shown

local answers, size = {}, 0
for at, id in ipairs(ARGV) do
  local job = read_job(id)
  answers[at], size = job, size + (job and bytes_of(job) or 0)
  if size >= C.max_bytes then
    break
  end
end
return answers
