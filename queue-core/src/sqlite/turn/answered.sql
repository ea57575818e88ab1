-- Records the turn of a lane, and renews its lease.
-- ?1 lane, ?2 sequence, ?3 the stored part of the answer, ?4 deadline
UPDATE queue_lanes SET seq = ?2, answer = ?3, deadline = ?4 WHERE lane = ?1
