//! Access to a page: through the sign-in, with a link, below a path, and behind a proxy.

use std::net::SocketAddr;

use queue_dashboard::{Options, Server};

use crate::common::{Answer, Bed, ask, encode};

const TOKEN: &str = "0123456789abcdef";
const CSRF: &str = "0123456789abcdef0123456789abcdef";

/// A dashboard with its own server and token.
async fn served(bed: &Bed, base: &str) -> SocketAddr {
    let mut options = Options::default();
    options.bind = SocketAddr::from(([127, 0, 0, 1], 0));
    options.token = Some(TOKEN.to_owned());
    options.base = base.to_owned();
    options.allow_actions = true;
    options.hosts = vec!["ops.example:8080".to_owned()];
    let server = Server::bind(bed.client.clone(), options).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[("authorization", "Bearer 0123456789abcdef")], "").await
}

/// Sends a form like a page of this origin.
async fn post(address: SocketAddr, path: &str, origin: &str, fields: &[(&str, &str)]) -> Answer {
    let fields = fields.iter().fold(format!("csrf={CSRF}"), |form, (name, value)| format!("{form}&{name}={}", encode(value)));
    let cookie = format!("queue_csrf={CSRF}");
    let headers = [
        ("cookie", cookie.as_str()),
        ("origin", origin),
        ("content-type", "application/x-www-form-urlencoded"),
        ("authorization", "Bearer 0123456789abcdef"),
    ];
    ask(address, "POST", path, &headers, &fields).await
}

#[tokio::test]
async fn a_link_keeps_its_target_through_the_sign_in() {
    let bed = Bed::sqlite().await;
    let address = served(&bed, "").await;
    let origin = format!("http://{address}");
    let target = "/jobs?state=dead&queue=mail";
    let asked = ask(address, "GET", target, &[], "").await;
    assert_eq!(asked.status, 401);
    assert!(asked.body.contains(r#"name="page" value="/jobs?state=dead&#38;queue=mail""#), "{}", asked.body);
    assert!(asked.headers["set-cookie"].ends_with("HttpOnly; SameSite=Lax"), "a link in a chat sends it: {:?}", asked.headers);

    let wrong = post(address, "/sign-in", &origin, &[("token", "no"), ("page", target)]).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("Invalid token.") && wrong.body.contains("state=dead&#38;queue=mail"), "{}", wrong.body);
    let right = post(address, "/sign-in", &origin, &[("token", TOKEN), ("page", target)]).await;
    assert_eq!((right.status, right.headers["location"].as_str()), (303, target));
    for elsewhere in ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nset-cookie: a=b", "", "evil"] {
        let answer = post(address, "/sign-in", &origin, &[("token", TOKEN), ("page", elsewhere)]).await;
        assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/"), "{elsewhere:?}");
    }

    let stale = ask(address, "GET", "/jobs?state=dead&%74oken=old", &[], "").await;
    assert!(stale.body.contains(r#"name="page" value="/jobs?state=dead""#), "{}", stale.body);
    let elsewhere = ask(address, "GET", &format!("//evil.example?token={TOKEN}"), &[], "").await;
    assert_eq!((elsewhere.status, elsewhere.headers["location"].as_str()), (303, "/"));
    let posted = post(address, &format!("/?token={TOKEN}"), &origin, &[]).await;
    assert_ne!(posted.status, 303, "a link is a GET");
    let csrf = format!("queue_csrf={CSRF}");
    let linked = ask(address, "GET", &format!("/jobs?state=dead&token={TOKEN}&queue=mail"), &[("cookie", &csrf)], "").await;
    assert_eq!((linked.status, linked.headers["location"].as_str()), (303, target));
    let session = linked.headers["set-cookie"].split(';').next().unwrap();
    let page = ask(address, "GET", target, &[("cookie", session)], "").await;
    assert_eq!(page.status, 404, "{}", page.body);
    assert!(page.body.contains("there is no queue `mail`") && !page.body.contains("The broker does not answer"), "{}", page.body);
}

#[tokio::test]
async fn a_path_may_be_passed_on_by_a_proxy_or_removed() {
    let bed = Bed::sqlite().await;
    let address = served(&bed, "ops/queue/").await;
    for path in ["/ops/queue", "/", "/ops/queue/queues", "/queues"] {
        let page = get(address, path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.body.contains(r#"href="/ops/queue/queues"#) && !page.body.contains(r#"href="/queues"#), "{path}: {}", page.body);
    }
    let dead = "/ops/queue/jobs?state=dead";
    for (path, page) in [("/ops/queue/jobs/?state=dead", dead), ("/jobs/?state=dead", dead), ("/ops/queue/?a=b", "/ops/queue?a=b")] {
        let slash = get(address, path).await;
        assert_eq!((slash.status, slash.headers["location"].as_str()), (308, page), "{path}");
    }
    for path in ["//evil.example/", "/\\evil.example/"] {
        let slash = get(address, path).await;
        assert!(slash.headers.get("location").is_none_or(|page| page.starts_with("/ops/queue")), "{path}: {:?}", slash.headers);
    }
    // A probe sends no token, and uses the address of the container.
    for path in ["/health", "/ops/queue/health"] {
        let health = ask(address, "GET", path, &[("host", "10.0.0.9:7070")], "").await;
        assert_eq!((health.status, health.body.as_str()), (200, "ok\n"), "{path}");
    }
}

/// A browser sends no `Sec-Fetch-Site` to a page without TLS on another machine.
#[tokio::test]
async fn a_change_behind_a_proxy_that_replaces_the_host() {
    let bed = Bed::sqlite().await;
    let address = served(&bed, "").await;
    bed.enqueue("one", None).await;
    let fields = [("queue", "mail")];
    let refused = post(address, "/queues/pause", "http://shop.example", &fields).await;
    assert_eq!(refused.status, 403);
    for part in ["shop.example", &address.to_string(), "--host shop.example", "proxy_set_header Host $http_host"] {
        assert!(refused.body.contains(part), "{part}: {}", refused.body);
    }
    assert_eq!(post(address, "/queues/pause", "http://ops.example", &fields).await.status, 403, "another port");
    assert_eq!(post(address, "/queues/pause", "http://ops.example:8080", &fields).await.status, 303);
}
