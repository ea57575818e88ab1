//! SHA-256, for keys. Users choose the data of a key, so the digest must be resistant to
//! collisions.

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
