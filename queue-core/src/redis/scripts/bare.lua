-- Whether a queue has nothing but jobs of normal priority that have not failed: most are so, and then nothing else is asked of it.
local bare = call('EXISTS', K.attempts, K.snoozes, K.crashes, K.errors, K.priority, K.tomb, K.ready0, K.ready1, K.ready3, K.suspect, K.parked) == 0
local sparse = not bare and call('EXISTS', K.attempts, K.snoozes, K.crashes, K.errors, K.priority, K.tomb) > 0
