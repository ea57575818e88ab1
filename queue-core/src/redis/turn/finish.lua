-- Ends the acked jobs.
if #acked > 0 then
  settle(acked)
  remember_given_ids(acked)
  record_tick_ends(acked, 'done')
  if #gone > 0 then
    end_deleted(gone, 'done')
  end
  for _, keep in ipairs(keeps) do
    end_kept(keep.ids, 'done', keep.ms, keep.sizes, keep.results, nil, keep.places)
  end
  if #keeps > 0 then
    -- Deletes two records for each one that is added, until a lowered limit is met.
    trim_ended(2 * (#acked - #gone), tonumber(ARGV[5]), tonumber(ARGV[6]))
  end
  count('done', #acked)
end
