//! Suggestions for a job whose state does not allow an operation.

/// The state of a job as the end of a sentence.
pub(super) fn it_is(state: &str) -> String {
    if state == "retry" { "it waits for a retry".to_owned() } else { format!("it is {state}") }
}

/// The recommended action for a job in this state.
pub(super) fn advice(verb: &str, state: &str) -> &'static str {
    match (verb, state) {
        ("edit", "active") => "; wait until its run has ended, or cancel it and duplicate it",
        ("edit", "done") => "; duplicate it, and edit the copy",
        ("edit", _) => "; requeue it, and edit it while it waits, or duplicate it",
        ("delete", "active") => "; cancel it first",
        ("promote", "ready") => "; it starts as soon as it may: `jobs why` shows what it waits for",
        ("promote", "held") => "; it starts when the job that holds its unique key has ended: `jobs why` shows which one",
        ("promote", "parked") => "; it starts when a worker may run its task: `jobs why` shows what it waits for",
        ("promote", "active") => "; it has started already",
        ("promote", "dead" | "cancelled" | "expired") => "; requeue it",
        ("promote" | "requeue", "done") => "; duplicate it",
        ("requeue", "retry" | "scheduled") => "; promote it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;

    fn message(verb: &'static str, state: &'static str) -> String {
        let job = "orders/17".parse().unwrap();
        Error::WrongState { job, verb, state }.to_string()
    }

    #[test]
    fn a_job_in_the_wrong_state_has_advice() {
        for (verb, state, advice) in [
            ("delete", "active", "it is active; cancel it first"),
            ("promote", "ready", "it is ready; it starts as soon as it may: `jobs why` shows what it waits for"),
            ("promote", "held", "it is held; it starts when the job that holds its unique key has ended: `jobs why` shows which one"),
            ("promote", "parked", "it is parked; it starts when a worker may run its task: `jobs why` shows what it waits for"),
            ("promote", "active", "it is active; it has started already"),
            ("promote", "dead", "it is dead; requeue it"),
            ("promote", "cancelled", "it is cancelled; requeue it"),
            ("promote", "expired", "it is expired; requeue it"),
            ("promote", "done", "it is done; duplicate it"),
            ("requeue", "retry", "it waits for a retry; promote it"),
            ("requeue", "scheduled", "it is scheduled; promote it"),
            ("requeue", "done", "it is done; duplicate it"),
            ("edit", "done", "it is done; duplicate it, and edit the copy"),
            ("cancel", "done", "it is done"),
        ] {
            assert_eq!(message(verb, state), format!("cannot {verb} job `orders/17`: {advice}"));
        }
    }
}
