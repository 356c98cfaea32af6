//! The client against a server that says exactly what a test wants.

use convoke_client::{Client, Error, Watch};
use proto::event::Seen;
use proto::methods::{Health, Nothing};
use proto::{Code, SessionId};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

/// Answers every connection with `answer` once something was asked. The first connection is `connect`'s own.
async fn serve(answer: &'static str) -> (tempfile::TempDir, Client) {
    let dir = tempfile::tempdir().unwrap();
    let socket: PathBuf = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            if stream.read(&mut asked).await.unwrap_or(0) > 0 {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let client = Client::connect(&socket).await.unwrap();
    (dir, client)
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_hint() {
    let (_dir, client) = serve(concat!(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 71\r\n\r\n",
        r#"{"error":{"code":"not_found","message":"no such thing","hint":"look up"}}"#,
    ))
    .await;
    let error = client.call::<Health>(Nothing {}).await.unwrap_err();
    assert!(matches!(error, Error::Broken(_) | Error::Garbage(_)), "a body cut short is no answer: {error}");

    let (_dir, client) = serve(concat!(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 73\r\n\r\n",
        r#"{"error":{"code":"not_found","message":"no such thing","hint":"look up"}}"#,
    ))
    .await;
    let Error::Refused(error) = client.call::<Health>(Nothing {}).await.unwrap_err() else { panic!("refused") };
    assert_eq!((error.code, error.hint.as_deref()), (Code::NotFound, Some("look up")));
}

#[tokio::test]
async fn events_carry_cursors_and_a_cut_stream_ends() {
    let (_dir, client) = serve(concat!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n: hello\n\n",
        "data: {\"type\":\"delta\",\"sessionId\":\"ses_1\",\"text\":\"a\"}\n\n",
        "id: 7\ndata: {\"type\":\"entry\",\"sessionId\":\"ses_1\",\"seq\":1,\"at\":2,\"entry\":{\"type\":\"notice\",\"text\":\"x\"}}\n\n",
        "data: {\"type\":\"from-the-future\"}\n\n",
    ))
    .await;
    let watch = Watch { root: SessionId::new(), after: Some("3".into()), follow: true };
    let mut events = client.events(&watch).await.unwrap();
    assert!(matches!(events.next().await.unwrap(), Some((None, Seen::Delta { .. }))));
    let (cursor, seen) = events.next().await.unwrap().unwrap();
    assert_eq!(cursor.as_deref(), Some("7"));
    assert_eq!(seen.entry().unwrap().tag(), "notice");
    assert!(matches!(events.next().await.unwrap(), Some((None, Seen::Unknown))));
    assert!(events.next().await.unwrap().is_none());
}

#[tokio::test]
async fn nobody_there_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::connect(&dir.path().join("none")).await.unwrap_err();
    assert!(error.is_lost() && matches!(error, Error::Unreachable { .. }), "{error}");
}
