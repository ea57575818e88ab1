-- Whether any of these hashes exists: most queues have none of them, and then nothing is asked of them.
local sparse = call('EXISTS', K.attempts, K.snoozes, K.crashes, K.errors, K.priority, K.tomb) > 0
