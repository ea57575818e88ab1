//! Events that other programs have appended to a log.

use std::borrow::Cow;

use crate::{codec, envelope::Envelope};

/// The envelope of a job with its payload in MessagePack. Another program may have added the
/// payload as JSON, which a script cannot translate without loss. A payload that cannot be
/// translated stays as it is, and the handler cannot read it.
pub(in crate::redis) fn with_messagepack_payload(envelope: &[u8]) -> Cow<'_, [u8]> {
    // A payload of this library is a map and never begins with this byte.
    const JSON: u8 = b'{';
    let translated = || {
        let mut decoded = Envelope::decode(envelope).ok().filter(|decoded| decoded.payload.first() == Some(&JSON))?;
        let payload = codec::from_json(str::from_utf8(decoded.payload).ok()?).ok()?;
        decoded.payload = &payload;
        decoded.encode().ok()
    };
    translated().map_or(Cow::Borrowed(envelope), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload_of(payload: &[u8]) -> Vec<u8> {
        let envelope = Envelope::new("OrderPaid", payload).encode().unwrap();
        Envelope::decode(&with_messagepack_payload(&envelope)).unwrap().payload.to_vec()
    }

    #[test]
    fn json_becomes_messagepack_and_everything_else_stays() {
        let json = br#"{"order": 9007199254740993, "lines": [], "note": null}"#;
        let value: serde_json::Value = codec::decode(&payload_of(json)).unwrap();
        assert_eq!(value, serde_json::from_slice::<serde_json::Value>(json).unwrap(), "no digit is lost");
        for payload in [&b"\x80"[..], b"{broken", b""] {
            assert_eq!(payload_of(payload), payload);
        }
        assert_eq!(&*with_messagepack_payload(b"no envelope"), b"no envelope");
    }
}
