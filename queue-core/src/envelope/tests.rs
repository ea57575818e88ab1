//! Stored values round-trip, and values that cannot be stored are rejected.

use super::*;

#[test]
fn an_envelope_survives_storage() {
    let mut envelope = Envelope::new("mail.send", b"\x81\xa2to\xa1x");
    envelope.max_attempts = Some(3);
    envelope.unique = Some("user=7".into());
    envelope.tags.insert("order".into(), "17".into());
    envelope.headers.insert("traceparent".into(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    let bytes = envelope.encode().unwrap();
    assert_eq!(Envelope::decode(&bytes).unwrap(), envelope);
}

#[test]
fn an_empty_payload_survives_storage() {
    let bytes = Envelope::new("mail.send", b"").encode().unwrap();
    assert_eq!(Envelope::decode(&bytes).unwrap().payload, b"");
}

#[test]
fn an_envelope_without_options_adds_thirteen_bytes() {
    let bytes = Envelope::new("task", &[0; 100]).encode().unwrap();
    assert_eq!(bytes.len(), 4 + 100 + 13);
}

#[test]
fn version_task_and_time_are_in_fixed_places() {
    let mut envelope = Envelope::new("mail.send", &[0x80]);
    envelope.enqueued_ms = Some(0x0102_0304_0506);
    let bytes = envelope.encode().unwrap();
    assert_eq!(bytes, b"\x01\x09mail.send\x01\x02\x03\x04\x05\x06\x81\xa1p\xc4\x01\x80");
    assert_eq!(Envelope::decode(&bytes).unwrap(), envelope);
}

#[test]
fn a_job_that_waits_for_a_time_reports_when_it_could_start() {
    let mut envelope = Envelope::new("task", &[0x80]);
    assert_eq!(envelope.startable_ms(), None);
    envelope.enqueued_ms = Some(1_000);
    assert_eq!(envelope.startable_ms(), Some(1_000));
    envelope.delay_ms = Some(500);
    assert_eq!(Envelope::decode(&envelope.encode().unwrap()).unwrap().startable_ms(), Some(1_500));
    (envelope.delay_ms, envelope.at_ms) = (None, Some(7_000));
    assert_eq!(Envelope::decode(&envelope.encode().unwrap()).unwrap().startable_ms(), Some(7_000));
    envelope.at_ms = Some(10);
    assert_eq!(envelope.startable_ms(), Some(1_000), "a time that was past");
}

#[test]
fn an_envelope_is_stamped_once() {
    let mut bytes = Envelope::new("task", &[0x80]).encode().unwrap();
    assert_eq!(Envelope::decode(&bytes).unwrap().enqueued_ms, None);
    for time in [0, -5, 1_700_000_000_000, 1_800_000_000_000] {
        stamp(&mut bytes, time);
    }
    assert_eq!(Envelope::decode(&bytes).unwrap().enqueued_ms, Some(1_700_000_000_000));
    for mut bytes in [vec![], vec![1], b"\x01\x04task\0".to_vec()] {
        let before = bytes.clone();
        stamp(&mut bytes, 1);
        assert_eq!(bytes, before, "there is no place for it");
    }
}

#[test]
fn of_a_newer_version_the_task_is_read() {
    let envelope = Envelope::decode(b"\x02\x04task whatever comes").unwrap();
    assert_eq!((envelope.version, &*envelope.task), (2, "task"));
}

#[test]
fn what_is_malformed_reports_how() {
    let problem = |bytes: &[u8]| Envelope::decode(bytes).unwrap_err().to_string();
    assert!(problem(b"").contains("too few"));
    assert!(problem(b"\x01").contains("too few"));
    assert!(problem(b"\x00\x01t\0\0\0\0\0\0\x80").contains("versions start at 1"));
    assert!(problem(b"\x01\x00\0\0\0\0\0\0\x80").contains("length of its task's name is 0"));
    assert!(problem(b"\x01\x05task").contains("length of its task's name is 5, and 4 bytes follow"));
    assert!(problem(b"\x01\x01\xff\0\0\0\0\0\0\x80").contains("UTF-8"));
    assert!(problem(b"\x01\x01t\0\0\0\0\0").contains("ends before the time"));
    assert!(problem(b"\x01\x01t\0\0\0\0\0\0").contains("ends early"));
    assert!(problem(b"\x01\x01t\0\0\0\0\0\0\x80").contains("missing field `p`"));
}

#[test]
fn unknown_fields_of_a_newer_writer_are_skipped() {
    let bytes = b"\x01\x01a\0\0\0\0\0\0\x82\xa1y\xa3new\xa1p\xc4\x01\x80";
    assert_eq!(Envelope::decode(bytes).unwrap().payload, [0x80]);
}

#[test]
fn headers_over_a_bound_are_refused_by_name() {
    let mut envelope = Envelope::new("a", &[0x80]);
    envelope.headers = (0..HEADERS_MAX).map(|n| (n.to_string(), String::new())).collect();
    assert!(envelope.encode().is_ok());
    envelope.headers.insert("one".into(), "more".into());
    assert_eq!(envelope.encode().unwrap_err().to_string(), "headers `33` are more than the 32 that a job may have");
    envelope.headers = BTreeMap::from([("big".into(), "x".repeat(HEADER_BYTES_MAX - 3))]);
    assert!(envelope.encode().is_ok());
    envelope.headers.insert("b".into(), String::new());
    assert!(envelope.encode().unwrap_err().to_string().contains("4096"));
}

#[test]
fn a_task_without_a_name_or_with_one_too_long_is_refused() {
    assert!(matches!(Envelope::new("", &[]).encode(), Err(Error::Invalid { .. })));
    assert!(matches!(Envelope::new(&"x".repeat(256), &[]).encode(), Err(Error::Invalid { .. })));
}

#[test]
fn a_payload_over_the_cap_is_refused() {
    let payload = vec![0; PAYLOAD_MAX + 1];
    assert!(matches!(Envelope::new("a", &payload).encode(), Err(Error::PayloadTooLarge { .. })));
}
