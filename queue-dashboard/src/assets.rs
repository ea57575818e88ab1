//! The style sheet, the script and the icon, which are part of the binary. Their addresses contain
//! a digest, so that a browser can cache them.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};

const STYLE: &str = include_str!("../assets/dashboard.css");
const SCRIPT: &str = include_str!("../assets/dashboard.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// The names under which they are served.
pub(crate) struct Names {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
}

pub(crate) static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    style: format!("dashboard-{:016x}.css", digest(STYLE)),
    script: format!("dashboard-{:016x}.js", digest(SCRIPT)),
    icon: format!("icon-{:016x}.svg", digest(ICON)),
});

pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name {
        name if name == NAMES.style => ("text/css; charset=utf-8", STYLE),
        name if name == NAMES.script => ("text/javascript; charset=utf-8", SCRIPT),
        name if name == NAMES.icon => ("image/svg+xml", ICON),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")], text).into_response()
}

/// FNV-1a. The digest has to change with the text. It does not have to resist an attacker.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
