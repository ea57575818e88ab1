//! A simulated service that counts calls. It allows each account a number of calls per second, and
//! answers 429 to more.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Calls per second that most accounts may make. This is more than our limit allows, even if some
/// calls are late and others early.
const USUAL: u32 = 40;

/// This account has a smaller plan. The application does not know that, and learns it from the
/// answers.
const SMALL: (&str, u32) = ("initech", 5);

/// The duration of a call.
const TAKES: Duration = Duration::from_millis(15);

/// The answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The position of an address.
    Found,
    /// Status 429: too many calls. Come back after this time.
    TooMany(Duration),
}

/// The service.
#[derive(Debug, Default)]
pub(crate) struct Geocoder {
    /// The start of the current second of an account, and the number of its calls.
    seconds: Mutex<BTreeMap<String, (Instant, u32)>>,
}

impl Geocoder {
    /// One call.
    pub(crate) async fn call(&self, account: &str) -> Answer {
        let answer = self.count(account, Instant::now());
        tokio::time::sleep(TAKES).await;
        answer
    }

    fn count(&self, account: &str, now: Instant) -> Answer {
        let allowed = if account == SMALL.0 { SMALL.1 } else { USUAL };
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, calls) = seconds.entry(account.to_owned()).or_insert((now, 0));
        if now.duration_since(*began) >= Duration::from_secs(1) {
            (*began, *calls) = (now, 0);
        }
        if *calls == allowed {
            return Answer::TooMany(Duration::from_secs(1).saturating_sub(now.duration_since(*began)));
        }
        *calls += 1;
        Answer::Found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_calls() {
        let (geocoder, now) = (Geocoder::default(), Instant::now());
        let half = now + Duration::from_millis(400);
        assert!((0..5).all(|_| geocoder.count("initech", now) == Answer::Found));
        assert_eq!(geocoder.count("initech", half), Answer::TooMany(Duration::from_millis(600)));
        assert_eq!(geocoder.count("acme", half), Answer::Found);
        assert_eq!(geocoder.count("initech", now + Duration::from_secs(1)), Answer::Found);
    }
}
