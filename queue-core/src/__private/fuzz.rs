//! Invariants of every decoder, for arbitrary bytes. Used by the fuzzer in `fuzz/` and by tests on
//! stable. Not part of the public interface.
//!
//! Each function takes arbitrary bytes, and panics if an invariant does not hold. A decoder must
//! accept or reject its input in bounded time and with a bounded message. It must not panic, and
//! what it accepts must round-trip.

use std::{
    collections::BTreeMap,
    str::{FromStr, from_utf8},
};

use serde::{Deserialize, Serialize};

use crate::{
    __private::{Param, PayloadReader, PayloadWriter, json_object},
    address::{JobAddress, JobId, check_name},
    broker::{BuryReason, JobState, LaneLease, StoredWorker, WorkerInfo, WorkerRecord},
    codec,
    envelope::{ERROR_MAX, Envelope},
    outcome::Outcome,
    payload,
    task::ParamDef,
};

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("scan", scan),
    ("envelope", envelope),
    ("payload", arguments),
    ("json", json),
    ("names", names),
    ("failures", failures),
    ("workers", workers),
    ("url", url),
    ("answers", answers),
    ("sentinels", sentinels),
    ("hints", hints),
];

/// Messages are short, because they are displayed, and stored with the job.
fn bounded(message: &str) {
    assert!(message.len() <= ERROR_MAX, "a message of {} bytes: {}…", message.len(), message.chars().take(200).collect::<String>());
}

/// The pass over MessagePack that precedes all decoding.
pub fn scan(bytes: &[u8]) {
    match codec::scan(bytes) {
        Ok(()) => {
            // A complete value has no complete beginning, and nothing after it.
            for end in 0..bytes.len().min(256) {
                assert!(end == bytes.len() || codec::scan(&bytes[..end]).is_err(), "its first {end} bytes pass too");
            }
            let mut longer = bytes.to_vec();
            longer.push(0xc0);
            assert!(codec::scan(&longer).is_err(), "a value behind it is not seen");
        }
        Err(problem) => bounded(&problem),
    }
    match payload::to_json(bytes) {
        Ok(text) => drop(serde_json::from_str::<serde_json::Value>(&text).expect("what is written for people is JSON")),
        Err(problem) => bounded(&problem),
    }
}

/// Stored jobs.
pub fn envelope(bytes: &[u8]) {
    match Envelope::decode(bytes) {
        Ok(envelope) => {
            let (all, payload) = (bytes.as_ptr_range(), envelope.payload.as_ptr_range());
            assert!(all.start <= payload.start && payload.end <= all.end, "the payload lies in the envelope");
            envelope.digest();
            if let Ok(again) = envelope.encode() {
                assert_eq!(Envelope::decode(&again).expect("what was written is read"), envelope);
            }
        }
        Err(error) => bounded(&error.to_string()),
    }
}

/// A parameter of every shape, nested as deeply as it likes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Number(i64),
    Real(f64),
    Text(String),
    Both(Box<Tree>, Box<Tree>),
    Named { left: Option<Box<Tree>>, right: Vec<Tree> },
    Map(BTreeMap<String, Tree>),
}

const TREE: Param<Tree> = Param::of();
const NUMBER: Param<Option<u16>> = Param::<Option<u16>>::of().stored(true, false, false);
const PARAMS: &[ParamDef] = &[
    ParamDef { name: "tree", ty: "Tree", required: true, option: false },
    ParamDef { name: "number", ty: "Option<u16>", required: false, option: true },
];

/// The parameters of a job.
pub fn arguments(bytes: &[u8]) {
    let read = || {
        let mut reader = PayloadReader::new(bytes)?;
        let number = reader.optional("number", &NUMBER, || None)?;
        Ok((reader.required("tree", &TREE)?, number))
    };
    match read() {
        Ok((tree, number)) => {
            let mut writer = PayloadWriter::new(2);
            writer.field("tree", &tree, &TREE);
            writer.field("number", &number, &NUMBER);
            // A value that is nested to the limit may exceed the limit in its longest form.
            if let Ok(written) = writer.finish("fuzz") {
                assert_eq!(codec::scan(&written), Ok(()));
            }
        }
        Err(Outcome::Undecodable(problem)) => bounded(&problem),
        Err(other) => panic!("reading parameters ends as {other:?}"),
    }
}

/// The command line's arguments.
pub fn json(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let write = || {
        let object = json_object("fuzz", PARAMS, text)?;
        let mut writer = PayloadWriter::new(object.len());
        writer.json("tree", &TREE, &object)?;
        writer.json("number", &NUMBER, &object)?;
        writer.finish("fuzz")
    };
    match write() {
        Ok(written) => {
            assert_eq!(codec::scan(&written), Ok(()), "what was enqueued can be read");
            arguments(&written);
        }
        Err(error) => bounded(&error.to_string()),
    }
}

/// Names, ids, addresses and words.
pub fn names(bytes: &[u8]) {
    match JobId::from_bytes(bytes) {
        Ok(id) => {
            assert_eq!(id.as_bytes(), bytes);
            id.made_at_ms();
        }
        Err(error) => bounded(&error.to_string()),
    }
    let Ok(text) = from_utf8(bytes) else { return };
    if let Err(error) = check_name("queue", text) {
        bounded(&error.to_string());
    }
    match text.parse::<JobId>() {
        Ok(id) => {
            assert_eq!(id.to_string().parse::<JobId>().expect("what is printed is read"), id);
            assert_eq!(JobId::from_bytes(id.as_bytes()).expect("what is stored is read"), id);
        }
        Err(error) => bounded(&error.to_string()),
    }
    match text.parse::<JobAddress>() {
        Ok(address) => assert_eq!(address.to_string().parse::<JobAddress>().expect("what is printed is read"), address),
        Err(error) => bounded(&error.to_string()),
    }
    if let Ok(state) = JobState::from_str(text) {
        assert_eq!(state.name(), text);
    }
    if let Some(reason) = BuryReason::from_name(text) {
        assert_eq!(reason.name(), text);
    }
}

/// Records of workers. One that is damaged hides no worker.
pub fn workers(bytes: &[u8]) {
    let lane = LaneLease { process: "0123456789abcdef".to_owned(), deadline_ms: 31_000, lease_ms: 30_000 };
    let found = WorkerRecord::of_lanes("mail", 1_000, [lane], |_| StoredWorker {
        record: Some(bytes.to_vec()),
        load: Some(bytes.to_vec()),
        asked: Some(bytes.to_vec()),
    });
    assert_eq!(found.len(), 1);
    if WorkerInfo::is_damaged(bytes) {
        assert!(found[0].since.is_none() && found[0].tasks.is_empty(), "a damaged record says something");
    }
    assert_eq!(WorkerRecord::merged(found.iter().cloned().chain(found.clone())).len(), 1);
}

/// The histories of failures, of both brokers.
pub fn failures(bytes: &[u8]) {
    #[cfg(feature = "sqlite")]
    crate::sqlite::fuzzed::failures(bytes);
    #[cfg(feature = "redis")]
    crate::redis::fuzz::failures(bytes);
    let _ = bytes;
}

/// URLs, with a password in front, which is never displayed.
pub fn url(bytes: &[u8]) {
    // No host has a capital letter in the end.
    const SECRET: &str = "Geheim";
    let Ok(text) = from_utf8(bytes) else { return };
    // The parser drops these, wherever they are.
    if text.replace(['\t', '\n', '\r'], "").contains(SECRET) || text.contains("file") {
        return;
    }
    for scheme in ["redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster"] {
        let url = format!("{scheme}://user:{SECRET}@{text}");
        let shown = crate::text::redacted(&url);
        assert!(!shown.contains(SECRET), "{shown}");
        #[cfg(feature = "redis")]
        match crate::redis::fuzz::url(&url) {
            Ok(target) => assert!(!target.contains(SECRET), "{target}"),
            Err(problem) => {
                bounded(&problem);
                assert!(!problem.contains(SECRET), "{problem}");
            }
        }
    }
    #[cfg(feature = "redis")]
    if let Err(problem) = crate::redis::fuzz::url(text) {
        bounded(&problem);
    }
    #[cfg(feature = "sqlite")]
    if let Some(problem) = crate::sqlite::fuzzed::url(text) {
        bounded(&problem);
    }
}

/// The data of a server, decoded as the answer to each of our scripts.
pub fn answers(bytes: &[u8]) {
    #[cfg(feature = "redis")]
    crate::redis::fuzz::answers(bytes);
    let _ = bytes;
}

/// The answers of a sentinel about its service.
pub fn sentinels(bytes: &[u8]) {
    #[cfg(feature = "sentinel")]
    crate::redis::fuzz::sentinels(bytes);
    let _ = bytes;
}

/// The messages of a server on a subscription.
pub fn hints(bytes: &[u8]) {
    #[cfg(feature = "redis")]
    crate::redis::fuzz::hints(bytes);
    let _ = bytes;
}
