//! Every decoder, over the corpus of the fuzzer, over what differs from it by a little, over any
//! bytes, and under bombs. What must hold is in `queue_core::__private::fuzz`; a coverage-guided
//! fuzzer runs the same (`fuzz/README.md`).
//!
//! `QUEUE_TEST_CASES` is the number of random cases per decoder (2000).

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{TestError, TestRunner},
};
use queue_core::__private::fuzz::{TARGETS, Target};

/// No single input may take longer in a build without optimization, on whatever machine.
const AT_MOST: Duration = Duration::from_secs(20);

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<_> = files
        .map(|file| {
            let path = file.expect("the corpus can be listed").path();
            (path.display().to_string(), std::fs::read(&path).expect("the corpus can be read"))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found
}

fn timely((name, target): &Target, what: &str, bytes: &[u8]) {
    let begin = Instant::now();
    target(bytes);
    assert!(begin.elapsed() < AT_MOST, "{name} takes {:?} for {what}", begin.elapsed());
}

#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    for target in TARGETS {
        for (file, bytes) in corpus(target.0) {
            timely(target, &file, &bytes);
        }
    }
}

/// Everything that was written for one decoder, given to every other one.
#[test]
fn the_food_of_one_decoder_does_another_no_harm() {
    let all: Vec<_> = TARGETS.iter().flat_map(|(name, _)| corpus(name)).collect();
    for target in TARGETS {
        for (file, bytes) in &all {
            timely(target, file, bytes);
        }
    }
}

/// One small change.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Cut(usize),
    Repeat(usize, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let within = |at: usize| at % (length + 1);
        match self {
            Change::Set(at, byte) if length > 0 => bytes[at % length] = *byte,
            Change::Insert(at, new) => drop(bytes.splice(within(*at)..within(*at), new.iter().copied())),
            Change::Remove(at, n) => drop(bytes.drain(within(*at)..(within(*at) + n).min(length))),
            Change::Cut(at) => bytes.truncate(within(*at)),
            Change::Repeat(at, n) => {
                let part = bytes[within(*at)..(within(*at) + n).min(length)].to_vec();
                bytes.splice(within(*at)..within(*at), part);
            }
            Change::Set(..) => {}
        }
    }
}

/// Bytes that mean something to MessagePack, to RESP, to JSON or in a URL, more often than others.
fn byte() -> impl Strategy<Value = u8> {
    let meaning =
        b"\x80\x81\x90\x91\x92\xa0\xa1\xa4\xc0\xc1\xc4\xc7\xca\xcb\xcf\xd3\xd9\xdb\xdc\xdd\xde\xdf*$:-+%,\r\n0123456789{}[]\"\\@/?&=.";
    prop_oneof![3 => select(meaning.to_vec()), 1 => any::<u8>()]
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..4096usize;
    prop_oneof![
        4 => (at.clone(), byte()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (at.clone(), vec(byte(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (at.clone(), 1..8usize).prop_map(|(at, n)| Change::Remove(at, n)),
        1 => at.clone().prop_map(Change::Cut),
        1 => (at, 1..32usize).prop_map(|(at, n)| Change::Repeat(at, n)),
    ]
}

fn cases() -> u32 {
    std::env::var("QUEUE_TEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

fn run(target: &Target, bytes: &impl Strategy<Value = Vec<u8>>) {
    let config = ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() };
    let told = TestRunner::new(config).run(bytes, |bytes| {
        timely(target, "random bytes", &bytes);
        Ok(())
    });
    match told {
        Ok(()) => {}
        Err(TestError::Fail(reason, bytes)) => panic!("{}: {reason}\n{bytes:02x?}\n{}", target.0, String::from_utf8_lossy(&bytes)),
        Err(other) => panic!("{}: {other}", target.0),
    }
}

#[test]
fn what_differs_a_little_from_the_corpus_is_read_or_refused() {
    for target in TARGETS {
        let files: Vec<Vec<u8>> = corpus(target.0).into_iter().map(|(_, bytes)| bytes).collect();
        let changed = (select(files), vec(change(), 1..6)).prop_map(|(mut bytes, changes)| {
            changes.iter().for_each(|change| change.apply(&mut bytes));
            bytes
        });
        run(target, &changed);
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    for target in TARGETS {
        run(target, &vec(byte(), 0..200));
    }
}

/// Depth that would overflow a stack, lengths that would fill a memory, words that would fill a
/// history.
#[test]
fn bombs_are_refused_in_time_and_in_few_words() {
    let n = 300_000;
    let long = "x".repeat(n);
    let text = |text: &str| [&[0xdb], &u32::try_from(text.len()).expect("it is short").to_be_bytes()[..], text.as_bytes()].concat();
    let tree = |value: &[u8]| [b"\x81\xa4tree", value].concat();
    let mut bombs: Vec<(&str, Vec<u8>)> = vec![
        ("lists in lists", [vec![0x91; n], vec![0xc0]].concat()),
        ("maps in maps", [vec![0x81; n], vec![0xc0]].concat()),
        ("variants in variants", tree(&b"\x81\xa4Both\x92".repeat(n / 8))),
        ("lists of a parameter", tree(&[vec![0x91; n], vec![0xc0]].concat())),
        ("an unknown variant", tree(&text(&long))),
        ("an unknown variant with content", tree(&[b"\x81".to_vec(), text(&long), vec![0xc0]].concat())),
        ("an unknown key of an envelope", [b"\x01\x04work\0\0\0\0\0\0\x81".to_vec(), text(&long), vec![0xc0]].concat()),
        ("a text for a number", [b"\x82\xa4tree\xa4Leaf\xa6number".to_vec(), text(&long)].concat()),
        ("a key without an end", [b"\x81\xa4tree\x81\xa3Map\x81".to_vec(), text(&long), text(&long)].concat()),
        ("a text for the attempts of an envelope", [b"\x01\x04work\0\0\0\0\0\0\x82\xa1p\xc4\0\xa1m".to_vec(), text(&long)].concat()),
        ("the name of a task without an end", [b"\x01\xff".to_vec(), vec![b'x'; 200]].concat()),
        ("many nothings", [vec![0xdd, 0, 0x0f, 0x42, 0x40], vec![0xc0; 1_000_000]].concat()),
        ("arrays of RESP", b"*1\r\n".repeat(n / 4)),
        ("maps of RESP", b"%1\r\n".repeat(n / 4)),
        ("an id of RESP", format!("*1\r\n${n}\r\n{long}\r\n").into_bytes()),
        ("a long name", long.clone().into_bytes()),
        ("a long given id", format!("={long}").into_bytes()),
        ("a long address", format!("a/{long}").into_bytes()),
        ("a long host", format!("redis://{long}").into_bytes()),
        ("many hosts", format!("redis+sentinel://{}/main", "a,".repeat(n / 2)).into_bytes()),
        ("a long parameter", format!("redis://h?{long}=1").into_bytes()),
        ("lists of JSON", format!("{{\"tree\":{}", "[".repeat(n)).into_bytes()),
        ("variants of JSON", format!("{{\"tree\":{}", "{\"Both\":[".repeat(n / 9)).into_bytes()),
        ("an unknown word of JSON", format!("{{\"tree\":\"{long}\"}}").into_bytes()),
        ("an unknown parameter of JSON", format!("{{\"{long}\":1}}").into_bytes()),
        ("a text for a number of JSON", format!("{{\"tree\":\"Leaf\",\"number\":\"{long}\"}}").into_bytes()),
    ];
    for marker in [0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf] {
        bombs.push(("a length that lies", tree(&[marker, 0xff, 0xff, 0xff, 0xff])));
        bombs.push(("a length that lies, alone", vec![marker, 0xff, 0xff, 0xff, 0xff]));
        bombs.push(("a length that lies, in a failure", vec![0x91, 0x92, marker, 0xff, 0xff, 0xff, 0xff]));
    }
    let mut broken = Vec::new();
    for target in TARGETS {
        for (what, bytes) in &bombs {
            if std::panic::catch_unwind(|| timely(target, what, bytes)).is_err() {
                broken.push(format!("{}: {what}", target.0));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
