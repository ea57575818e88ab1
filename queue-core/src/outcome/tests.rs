use super::*;

#[derive(Debug)]
struct Outer(Outcome);
impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("while polling")
    }
}
impl StdError for Outer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn an_outcome_is_found_among_the_sources_of_an_error() {
    let end = Err::<(), _>(Outer(Outcome::Snooze(Duration::from_secs(1)))).end(false);
    assert_eq!(end, Outcome::Snooze(Duration::from_secs(1)));
}

#[derive(Debug, thiserror::Error)]
enum Shop {
    #[error(transparent)]
    Steered(#[from] Outcome),
    #[error("the shop says: {0}")]
    Quoted(Outcome),
}

#[test]
fn an_outcome_is_found_in_an_error_that_is_nothing_else() {
    let thrown = || -> Result<(), Shop> { Err(Outcome::Snooze(Duration::from_secs(1)))? };
    assert_eq!(thrown().end(false), Outcome::Snooze(Duration::from_secs(1)));
    let boxed: Box<dyn StdError + Send + Sync> = Box::new(Shop::from(Outcome::Bury("sold".into())));
    assert_eq!(Err::<(), _>(boxed).end(false), Outcome::Bury("sold".into()));
}

#[test]
fn an_outcome_that_an_error_only_speaks_of_steers_nothing() {
    let quoted = Err::<(), _>(Shop::Quoted(Outcome::Bury("sold".into()))).end(false);
    assert_eq!(quoted, Outcome::Failed("the shop says: bury: sold".into()));
    assert_eq!(Err::<(), _>("snooze for 1s").end(false), Outcome::Failed("snooze for 1s".into()));
}

#[test]
fn an_error_is_reported_with_its_sources() {
    let error = std::io::Error::other("disk on fire");
    assert_eq!(error_text(&error), "disk on fire");
    assert_eq!(Err::<(), _>("plain text").end(false), Outcome::Failed("plain text".into()));
}

#[test]
fn a_result_is_encoded_only_where_it_is_wanted() {
    assert_eq!(Ok::<_, String>(7u8).end(false), Outcome::Done);
    assert_eq!(Ok::<_, String>(7u8).end(true), Outcome::DoneWith(Encoded { stored: Ok(vec![7]), is_doubtful: false }));
    assert!(matches!(Ok::<_, String>("x".repeat(RESULT_MAX)).end(true), Outcome::DoneWith(Encoded { stored: Err(_), .. })));
}

#[test]
fn a_reason_is_stored_in_place_of_a_result_and_no_result_is_taken_for_one() {
    assert_eq!(Encoded::of(&"x".to_owned()).into_stored(), (b"\xa1x".to_vec(), None));
    let (stored, problem) = Encoded { stored: Err("no".to_owned()), is_doubtful: false }.into_stored();
    assert_eq!((stored.as_slice(), problem, stored_result(&stored).unwrap_err()), (&b"\xc1no"[..], Some("no".to_owned()), "no".to_owned()));
    for result in [&b"\xa1x"[..], b"\xc0", b"", b"\xc1"] {
        assert_eq!(stored_result(result).unwrap(), result);
    }
}

/// An error that is its own source.
#[derive(Debug)]
struct Ouroboros;
impl fmt::Display for Ouroboros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bites its tail")
    }
}
impl StdError for Ouroboros {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

/// Two errors that are sources of each other.
#[derive(Debug)]
struct Circle(&'static str, std::sync::OnceLock<&'static Circle>);
impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl StdError for Circle {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.1.get().map(|other| *other as _)
    }
}

#[test]
fn errors_whose_sources_go_in_a_circle_have_an_end() {
    let Outcome::Failed(failure) = Err::<(), _>(Ouroboros).end(false) else { panic!("it failed") };
    assert_eq!(failure.text(), "bites its tail");
    assert!(failure.find::<std::io::Error>().is_none() && failure.find::<Ouroboros>().is_some());

    let [one, other]: [&'static Circle; 2] = ["one", "other"].map(|name| &*Box::leak(Box::new(Circle(name, Default::default()))));
    one.1.set(other).unwrap();
    other.1.set(one).unwrap();
    assert!(error_text(one).starts_with("one: other: one"));
    assert_eq!(outcome_in(one), None);
}

/// Panics when it is dropped, with one that does the same.
#[derive(Debug)]
struct Mine(u32);
impl Drop for Mine {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Mine(self.0 - 1));
        }
    }
}
impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mine")
    }
}
impl StdError for Mine {}

#[test]
fn the_place_of_a_panic_names_no_folder_of_the_machine() {
    for (file, place) in [
        ("src/close.rs", "src/close.rs"),
        ("/home/ada/.cargo/registry/src/index.crates.io-1/serde-1.0.1/src/de/mod.rs", "serde-1.0.1/src/de/mod.rs"),
        ("/rustc/0a1b/library/core/src/option.rs", "core/src/option.rs"),
        ("/home/ada/src/shop/tests/close.rs", "shop/tests/close.rs"),
        ("/home/ada/src/shop/target/debug/build/shop-1/out/made.rs", "made.rs"),
        ("/build/close.rs", "close.rs"),
    ] {
        assert_eq!(within_package(file), place);
    }
}

#[test]
fn an_error_or_a_panic_that_panics_when_it_is_dropped_harms_nobody() {
    let failure = Failure::of(Mine(3));
    drop(failure.clone());
    assert_eq!(failure.into_text(), "a mine");
    let panic = catch_unwind(|| std::panic::panic_any(Mine(3))).unwrap_err();
    assert_eq!(panic_text(panic), "without a message");
}
