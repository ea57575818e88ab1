//! The checks before every route: the host, the user, and the origin of a change.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    extract::{OriginalUri, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{
            AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, REFERER, REFERRER_POLICY, SET_COOKIE,
        },
        request::Parts,
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    cookie::{cookie, is_same_secret, secret, set},
    pages::act::redirect_target,
    params::Params,
    paths::path_of,
    problem::Problem,
    role::Person,
    serve::ASKS,
    server::without_token,
    shared::{Hosts, Shared},
};

/// The cookie whose value a form repeats.
const TOKEN: &str = "queue_csrf";

/// The name of the field that repeats it.
const FIELD: &str = "csrf";

/// Most bytes of a form: a hundred addresses of jobs fit.
const FORM_MAX: usize = 128 * 1024;

/// The same for the form Edit. It has room for the longest editable parameters, of which each byte
/// takes three.
const EDIT_MAX: usize = 256 * 1024;

/// No content from other sites, and no inline content.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

/// The visitor, and the context of the request.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The path at which the dashboard is mounted: empty, or as `/queue`.
    pub(crate) base: String,
    pub(crate) person: Option<Person>,
    pub(crate) token: String,
    pub(crate) read_only: bool,
    /// Whether there is a sign-in page.
    pub(crate) signs_in: bool,
    /// The requested page, to which a sign-in leads.
    pub(crate) page: Option<String>,
    /// The page of this dashboard on which a change was made.
    pub(crate) back: Option<String>,
}

/// The fields of a change that comes from a page of this dashboard.
#[derive(Clone, Debug)]
pub(crate) struct Form(pub(crate) Params);

pub(crate) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let known = cookie(&parts.headers, TOKEN).filter(|token| token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_new = known.is_none();
    let Ok(token) = known.map_or_else(secret, |token| Ok(token.to_owned())) else {
        return with_security_headers((StatusCode::INTERNAL_SERVER_ERROR, "no random numbers").into_response());
    };
    let mut viewer = Viewer {
        base: base_path(&shared, &parts),
        person: None,
        token,
        read_only: shared.settings.read_only,
        signs_in: shared.settings.sign_in.is_some(),
        page: None,
        back: None,
    };
    let cookie = is_new.then(|| set(TOKEN, &viewer.token, &viewer.base));
    let answer = match check(&shared, &mut parts, body, &mut viewer).await {
        Ok(Checked::Pass(body)) => {
            parts.extensions.insert(viewer);
            next.run(Request::from_parts(parts, body)).await
        }
        Ok(Checked::Answer(answer)) => answer,
        Err(problem) => problem.page(&viewer),
    };
    let mut answer = with_security_headers(answer);
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    answer
}

enum Checked {
    Pass(Body),
    Answer(Response),
}

async fn check(shared: &Shared, parts: &mut Parts, body: Body, viewer: &mut Viewer) -> Result<Checked, Problem> {
    let host = host(parts);
    if !is_allowed_host(&shared.settings.hosts, host.as_deref()) {
        return Err(Problem::host(host.as_deref().unwrap_or_default()));
    }
    viewer.person = match &shared.settings.sign_in {
        None => (shared.role_of)(parts),
        Some(sign_in) => {
            if let Some((session, page)) = sign_in.by_link(parts) {
                let headers = [(SET_COOKIE, set(sign_in.cookie(), &session, &viewer.base)), (LOCATION, viewer.address(&page))];
                return Ok(Checked::Answer((StatusCode::SEE_OTHER, headers).into_response()));
            }
            sign_in.is_signed_in(parts).then(|| (shared.role_of)(parts)).flatten()
        }
    };
    if parts.method == Method::GET || parts.method == Method::HEAD {
        let is_page = parts.uri.path() != "/sign-in";
        viewer.page = is_page.then(|| viewer.address(&without_token(&parts.uri)));
        return Ok(Checked::Pass(Body::empty()));
    }
    if parts.method != Method::POST {
        return Err(if viewer.person.is_some() { Problem::method() } else { Problem::unauthenticated() });
    }
    let is_form = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
    });
    if !is_form {
        return Err(Problem::form());
    }
    is_from_here(&parts.headers, &shared.settings.hosts)?;
    let most = if parts.uri.path().ends_with("/jobs/edit") { EDIT_MAX } else { FORM_MAX };
    let sent = tokio::time::timeout(ASKS, to_bytes(body, most)).await.map_err(|_| Problem::timed_out())?;
    let bytes = sent.map_err(|_| Problem::too_large())?;
    let form = Params::parse(&bytes);
    viewer.back = page_in_referer(parts, &viewer.base).or_else(|| page_in_form(&form, &viewer.base));
    // The request must contain the cookie. A cookie that was created for the answer proves nothing.
    let sent = cookie(&parts.headers, TOKEN);
    if !sent.zip(form.get(FIELD)).is_some_and(|(sent, field)| is_same_secret(sent, field) && is_same_secret(sent, &viewer.token)) {
        return Err(Problem::token());
    }
    parts.extensions.insert(Form(form));
    Ok(Checked::Pass(Body::empty()))
}

/// The page of the dashboard from which a form was sent, from the `Referer`. The address of a
/// confirmation is not a page.
fn page_in_referer(parts: &Parts, base: &str) -> Option<String> {
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let (_, rest) = header(REFERER)?.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let is_same_site = authority.eq_ignore_ascii_case(header(HOST)?) && path.strip_prefix(base)?.starts_with('/');
    let own = format!("{base}{}", parts.uri.path());
    (is_same_site && !path.starts_with("//") && path.split('?').next() != Some(&own)).then(|| path.to_owned())
}

/// The same from the form: the page in its field, or the page of its job.
fn page_in_form(form: &Params, base: &str) -> Option<String> {
    let page = match (form.get("back"), form.get("job")) {
        (Some(back), _) => redirect_target(back, "").trim_end_matches(['?', '&']).to_owned(),
        (None, Some(job)) => path_of(&job.parse().ok()?).trim_start_matches('/').to_owned(),
        (None, None) => return None,
    };
    Some(format!("{base}/{page}"))
}

/// The path before the route, which a nesting router has removed.
fn base_path(shared: &Shared, parts: &Parts) -> String {
    if let Some(base) = &shared.settings.base {
        return base.clone();
    }
    let Some(OriginalUri(original)) = parts.extensions.get::<OriginalUri>() else { return String::new() };
    let (whole, rest) = (original.path(), parts.uri.path());
    let base = whole.strip_suffix(rest).unwrap_or(if rest == "/" { whole } else { "" });
    let base = base.trim_matches('/');
    if base.is_empty() { String::new() } else { format!("/{base}") }
}

/// The name or address in `Host`, without the port.
fn host(parts: &Parts) -> Option<String> {
    let authority = match parts.headers.get(HOST) {
        Some(value) => value.to_str().ok()?.parse::<Authority>().ok()?,
        None => parts.uri.authority()?.clone(),
    };
    Some(authority.host().trim_end_matches('.').to_ascii_lowercase())
}

fn is_allowed_host(hosts: &Hosts, host: Option<&str>) -> bool {
    match (hosts, host) {
        (Hosts::Any, _) => true,
        (Hosts::These(_), None) => false,
        (Hosts::These(names), Some(host)) => is_loopback(host) || names.iter().any(|name| without_port(name) == host),
    }
}

/// The name or address of `name:port`.
fn without_port(name: &str) -> &str {
    name.parse::<Authority>().map_or(name, |authority| &name[..authority.host().len()])
}

fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a form comes from a page of this dashboard. A browser always sends `Origin`. It sends
/// `Sec-Fetch-Site` to a page that it trusts (HTTPS, or a loopback address). Behind a proxy that
/// replaces `Host`, the origin must be one of the hosts.
fn is_from_here(headers: &HeaderMap, hosts: &Hosts) -> Result<(), Problem> {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if let Some(site) = header("sec-fetch-site") {
        return if site == "same-origin" { Ok(()) } else { Err(Problem::cross_site(site)) };
    }
    let host = header("host").unwrap_or_default();
    let Some(origin) = header("origin") else { return Err(Problem::no_origin()) };
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let is_same = !host.is_empty() && authority.eq_ignore_ascii_case(host);
    // Another port of the same host belongs to another program.
    let is_replaced = !without_port(authority).eq_ignore_ascii_case(without_port(host));
    let is_named = is_replaced && matches!(hosts, Hosts::These(names) if names.iter().any(|name| name.eq_ignore_ascii_case(authority)));
    if is_same || is_named { Ok(()) } else { Err(Problem::origin(authority, host)) }
}

/// The token of an `Authorization: Bearer` header.
pub(crate) fn bearer(parts: &Parts) -> Option<&str> {
    parts.headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// The headers of every answer.
fn with_security_headers(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_ours() {
        let hosts = Hosts::These(vec!["shop.example".to_owned(), "ops.example:8080".to_owned()]);
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "a.localhost", "shop.example", "ops.example"] {
            assert!(is_allowed_host(&hosts, Some(host)), "{host}");
        }
        for host in
            ["evil.example", "shop.example.evil", "10.0.0.1", "127.0.0.1.evil.example", "localhost.evil.example", "", "0.0.0.0", "[::]"]
        {
            assert!(!is_allowed_host(&hosts, Some(host)), "{host}");
        }
        assert!(!is_allowed_host(&hosts, None));
    }

    #[test]
    fn a_change_comes_from_a_page_of_the_same_origin() {
        let from = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            pairs.iter().for_each(|(name, value)| drop(headers.insert(*name, HeaderValue::from_static(value))));
            is_from_here(&headers, &Hosts::These(vec!["ops.example:8080".to_owned()])).is_ok()
        };
        assert!(from(&[("host", "localhost:1"), ("sec-fetch-site", "same-origin")]));
        assert!(from(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        for other in ["cross-site", "same-site", "none"] {
            assert!(!from(&[("host", "localhost:1"), ("origin", "http://localhost:1"), ("sec-fetch-site", other)]));
        }
        assert!(!from(&[("host", "localhost:1"), ("origin", "http://localhost:2")]));
        assert!(!from(&[("host", "localhost:1"), ("origin", "null")]));
        assert!(from(&[("host", "localhost:1"), ("origin", "http://ops.example:8080")]), "a proxy replaces the host");
        assert!(!from(&[("host", "localhost:1"), ("origin", "http://ops.example:8081")]));
        assert!(!from(&[("host", ""), ("origin", "http://")]));
        assert!(!from(&[("host", "ops.example:7070"), ("origin", "http://ops.example:8080")]), "another program on the same host");
        assert!(!from(&[("host", "localhost:1")]));
    }
}
