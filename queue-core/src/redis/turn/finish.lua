-- Finishes what was acked.
if #acked > 0 then
  settle(acked)
  end_given(acked)
  end_ticks(acked, 'done')
  if #gone > 0 then
    end_gone(gone, 'done')
  end
  for _, keep in ipairs(keeps) do
    end_kept(keep.ids, 'done', keep.ms, keep.sizes, keep.results, nil, keep.places)
  end
  if #keeps > 0 then
    -- Two go for one that comes, so that a lowered limit is reached.
    trim_ended(2 * (#acked - #gone), tonumber(ARGV[5]), tonumber(ARGV[6]))
  end
  count('done', #acked)
end
