//! TLS at the TCP door: who is spoken to is known before a token is told.

use crate::{Site, World};
use client::Client;
use convoke_gateway::{Certificate, Listen};
use proto::methods::{Agent, AgentInput, Health, Nothing};
use proto::{Code, Error};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An authority, and a gateway's certificate that it signed.
struct Paper {
    ca: PathBuf,
    certificate: Certificate,
}

fn paper(dir: &Path, name: &str, names: &[&str]) -> Paper {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let file = |end: &str, text: String| {
        let path = dir.join(format!("{name}.{end}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert, key) = (file("cert", signed.pem()), file("key", key.serialize_pem()));
    Paper { ca: file("ca", authority.pem()), certificate: Certificate::read(&cert, &key).unwrap() }
}

async fn world(paper: &Paper) -> (World, Site) {
    let listen = Listen { certificate: Some(paper.certificate.clone()), ..Listen::default() };
    World::tcp_at(tempfile::tempdir().unwrap(), &listen).await
}

#[tokio::test]
async fn a_client_that_knows_the_authority_speaks_to_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let paper = paper(dir.path(), "ours", &["127.0.0.1", "localhost", "gate.example"]);
    let (_world, site) = world(&paper).await;
    assert!(site.url.starts_with("https://127.0.0.1:"), "{}", site.url);
    let port = site.address.rsplit(':').next().unwrap();
    for url in [site.url.clone(), format!("https://localhost:{port}")] {
        let client = Client::connect_tls(&url, &site.token, &paper.ca).await.unwrap();
        assert_eq!(client.call::<Health>(Nothing {}).await.unwrap().version, "9.9.9", "{url}");
        let input = AgentInput { message: "x".repeat(1 << 20), ..AgentInput::default() };
        let accepted = client.call::<Agent>(input).await.unwrap();
        let watch = client::Watch { root: accepted.session_id, after: Some("0".into()), follow: true };
        assert!(client.events(&watch).await.unwrap().next().await.unwrap().is_some());
        let stranger = Client::connect_tls(&url, "cvk_wrong", &paper.ca).await.unwrap();
        assert_eq!(Error::from(stranger.call::<Health>(Nothing {}).await.unwrap_err()).code, Code::Unauthorized);
    }
}

#[tokio::test]
async fn nobody_is_told_a_token_who_cannot_show_who_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let ours = paper(dir.path(), "ours", &["127.0.0.1"]);
    let other = paper(dir.path(), "other", &["127.0.0.1"]);
    let elsewhere = paper(dir.path(), "elsewhere", &["gate.example"]);
    let (_world, site) = world(&ours).await;
    let (_other, stranger) = world(&elsewhere).await;
    for (url, ca) in [(&site.url, &other.ca), (&stranger.url, &elsewhere.ca)] {
        let client = Client::connect_tls(url, &site.token, ca).await.unwrap();
        let error = client.call::<Health>(Nothing {}).await.unwrap_err();
        assert!(matches!(&error, client::Error::Address(why) if why.contains("not the gateway")), "{error:?}");
        assert!(!error.is_lost(), "trying again does not help");
    }
    let plain = Client::connect_tcp(&site.url.replace("https", "http"), &site.token).await.unwrap();
    assert!(plain.call::<Health>(Nothing {}).await.is_err(), "in the clear nothing is answered");
}

#[tokio::test]
async fn the_names_on_the_certificate_are_ours_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let paper = paper(dir.path(), "ours", &["127.0.0.1", "gate.example"]);
    let (_world, site) = world(&paper).await;
    for (host, status) in [("gate.example", "200"), ("evil.example", "403")] {
        let mut roots = tokio_rustls::rustls::RootCertStore::empty();
        let pem = std::fs::read(&paper.ca).unwrap();
        let ca = <_ as tokio_rustls::rustls::pki_types::pem::PemObject>::from_pem_slice(&pem).unwrap();
        roots.add(ca).unwrap();
        let config = tokio_rustls::rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "127.0.0.1".try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let mut stream = connector.connect(name, site.connect().await).await.unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
}

#[tokio::test]
async fn an_unfinished_handshake_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let paper = paper(dir.path(), "ours", &["127.0.0.1"]);
    let (_world, site) = world(&paper).await;
    let mut open = Vec::new();
    for said in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"].iter().cycle().take(60) {
        let mut stream = site.connect().await;
        stream.write_all(said).await.unwrap();
        open.push(stream);
    }
    let client = Client::connect_tls(&site.url, &site.token, &paper.ca).await.unwrap();
    assert!(client.call::<Health>(Nothing {}).await.unwrap().ok);
}

#[tokio::test]
async fn t04_with_a_certificate_it_may_listen_beyond_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let paper = paper(dir.path(), "ours", &["127.0.0.1"]);
    let address = "0.0.0.0".parse().unwrap();
    let listen = Listen { address, certificate: Some(paper.certificate.clone()), ..Listen::default() };
    let (_world, site) = World::tcp_at(tempfile::tempdir().unwrap(), &listen).await;
    let client = Client::connect_tls(&site.url, &site.token, &paper.ca).await.unwrap();
    assert!(client.call::<Health>(Nothing {}).await.unwrap().ok);
}
