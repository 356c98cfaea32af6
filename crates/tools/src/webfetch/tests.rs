//! Pages of real servers on this machine.

use super::WebFetch;
use super::fetch::{self, Names, Ways};
use crate::testing::Place;
use async_trait::async_trait;
use serde_json::json;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

/// Answers every request with the same bytes, as often as it is asked. Returns where, and how often it was.
async fn server(address: &str, answer: impl Into<Vec<u8>>) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let (place, count, answer) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)), answer.into());
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(&answer).await;
            });
        }
    });
    (place, count)
}

fn page(kind: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

/// Says other things each time it is asked.
struct Flips(Vec<IpAddr>, AtomicUsize);

#[async_trait]
impl Names for Flips {
    async fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let n = self.1.fetch_add(1, Ordering::SeqCst);
        Ok(vec![self.0[n.min(self.0.len() - 1)]])
    }
}

const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// For these tests, one address of this machine stands for the open.
fn is_outside(address: IpAddr) -> bool {
    address == OUTSIDE
}

async fn get(url: &str, names: &Flips) -> Result<fetch::Page, crate::Error> {
    fetch::get(Url::parse(url).unwrap(), &Ways { names, is_public: is_outside, may: &|_| Ok(()), is_named: &|_| false })
        .await
}

#[tokio::test]
async fn a_private_name_that_was_allowed_does_not_lead_to_where_machines_are_told_secrets() {
    for address in ["169.254.169.254", "100.100.100.200", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"] {
        let names = Flips(vec![address.parse().unwrap()], AtomicUsize::new(0));
        let refused = get("http://printer/", &names).await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("is not fetched from there"), "{address}: {refused}");
    }
}

/// Leave for whatever is on one port.
struct OnPort(u16);

impl crate::door::Leave for OnPort {
    fn has(&self, permission: &str, pattern: &str) -> bool {
        permission != "webfetch" || pattern.contains(&format!(":{}/", self.0))
    }
}

#[tokio::test]
async fn where_a_page_leads_is_judged_by_the_rules_too() {
    let (secret, asked) = server("127.0.0.1:0", page("text/plain", "secret")).await;
    let (place, _) = server("127.0.0.1:0", redirect(&format!("http://{secret}/"))).await;
    let cx = crate::ToolCx { leave: Arc::new(OnPort(place.port())), ..Place::new().cx() };
    let input = serde_json::value::to_raw_value(&json!({ "url": format!("http://{place}/") })).unwrap();
    let error = crate::AnyTool::run(&WebFetch, &input, &cx).await.err().unwrap().to_string();
    assert!(error.contains("no leave for `webfetch`") && error.contains(&secret.to_string()), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_page_is_fetched_and_shown_as_asked() {
    let (place, _) = server("127.0.0.1:0", page("text/html; charset=utf-8", "<h1>Hello</h1><p>you</p>")).await;
    let here = Place::new();
    let url = format!("http://{place}/x");
    let text = here.call(&WebFetch, json!({ "url": url })).await.unwrap();
    assert_eq!(text, format!("{url} (200)\n\n# Hello\n\nyou"));
    let text = here.call(&WebFetch, json!({ "url": url, "format": "html" })).await.unwrap();
    assert!(text.ends_with("<h1>Hello</h1><p>you</p>"), "{text}");
}

#[test]
fn what_is_inside_is_asked_for_by_its_own_name() {
    let place = Place::new();
    let asks = |url: &str| place.asks(&WebFetch, json!({ "url": url }));
    assert_eq!(asks("https://Docs.RS/a?b#c"), ["webfetch https://docs.rs/a?b#c"]);
    assert_eq!(asks("http://2130706433:80/"), ["webfetch http://127.0.0.1/", "private_network 127.0.0.1"]);
    assert_eq!(asks("https://docs.python.org%2eevil.com/"), ["webfetch https://docs.python.org.evil.com/"]);
}

#[tokio::test]
async fn t18_a_name_that_changes_its_mind_leads_nowhere_else() {
    let (outside, reached) = server("127.0.0.2:0", page("text/plain", "outside")).await;
    let (_, inside) = server(&format!("127.0.0.1:{}", outside.port()), page("text/plain", "secret")).await;
    let names = Flips(vec![OUTSIDE, INSIDE], AtomicUsize::new(0));
    let found = get(&format!("http://a.example.org:{}/", outside.port()), &names).await.unwrap();
    assert_eq!(found.body, b"outside");
    assert_eq!((reached.load(Ordering::SeqCst), inside.load(Ordering::SeqCst)), (1, 0));
    // The second time it says that it is inside.
    let error = get(&format!("http://a.example.org:{}/", outside.port()), &names).await.err().unwrap();
    assert!(error.to_string().contains("inside this machine"), "{error}");
    assert_eq!(inside.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn t19_every_hop_is_looked_at() {
    let names = Flips(vec![OUTSIDE], AtomicUsize::new(0));
    let (secret, asked) = server("127.0.0.1:0", page("text/plain", "secret")).await;
    for (to, why) in [
        (format!("http://{secret}/"), "inside this machine"),
        ("file:///etc/passwd".to_owned(), "`file:` is not fetched"),
        ("http://user:pass@a.example.org/".to_owned(), "a user or a password"),
    ] {
        let (place, _) = server("127.0.0.2:0", redirect(&to)).await;
        let error = get(&format!("http://a.example.org:{}/", place.port()), &names).await.err().unwrap();
        assert!(error.to_string().contains(why), "{to}: {error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let (place, hops) = server("127.0.0.2:0", redirect("/again")).await;
    let error = get(&format!("http://a.example.org:{}/", place.port()), &names).await.err().unwrap();
    assert!(error.to_string().contains("on and on"), "{error}");
    assert_eq!(hops.load(Ordering::SeqCst), 11);
}

#[tokio::test]
async fn t21_no_page_is_larger_than_its_limit_and_none_is_unpacked() {
    let names = Flips(vec![OUTSIDE], AtomicUsize::new(0));
    // Says that it is 10 GB, and sends more than is read.
    let mut endless = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10000000000\r\n\r\n".to_vec();
    endless.resize(endless.len() + fetch::MOST + (1 << 20), b'x');
    let (place, _) = server("127.0.0.2:0", endless).await;
    let found = get(&format!("http://a.example.org:{}/", place.port()), &names).await.unwrap();
    assert_eq!((found.body.len(), found.cut), (fetch::MOST, true));
    let packed = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc".to_vec();
    let (place, _) = server("127.0.0.2:0", packed).await;
    let error = get(&format!("http://a.example.org:{}/", place.port()), &names).await.err().unwrap();
    assert!(error.to_string().contains("came packed"), "{error}");
    let headers = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n".repeat(200_000)].concat();
    let (place, _) = server("127.0.0.2:0", headers).await;
    assert!(get(&format!("http://a.example.org:{}/", place.port()), &names).await.is_err());
}

#[tokio::test]
async fn a_picture_and_a_slow_page_say_what_they_are() {
    let here = Place::new();
    let (place, _) = server("127.0.0.1:0", page("image/png", "\u{0}PNG")).await;
    let error = here.call(&WebFetch, json!({ "url": format!("http://{place}/") })).await.unwrap_err();
    assert!(error.contains("is no text but `image/png`"), "{error}");
    let (place, _) = server("127.0.0.1:0", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow".to_vec()).await;
    let error = here.call(&WebFetch, json!({ "url": format!("http://{place}/"), "timeout": 1 })).await.unwrap_err();
    assert!(error.contains("broke off") || error.contains("longer than 1 s"), "{error}");
    for (url, why) in [("ftp://a.org/", "`ftp:` is not fetched"), ("nonsense", "is no address")] {
        let error = here.call(&WebFetch, json!({ "url": url })).await.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
