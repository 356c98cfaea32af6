//! Tests of `read`.

use super::Read;
use crate::files::{Stamp, State};
use crate::testing::Place;
use serde_json::json;

#[tokio::test]
async fn lines_are_numbered_and_the_end_is_told() {
    let place = Place::new();
    place.file("a.txt", "one\r\ntwo\n");
    let text = place.call(&Read, json!({"filePath": "a.txt"})).await.unwrap();
    assert_eq!(text, "     1\tone\n     2\ttwo\n\n(end of the file: 2 lines)");
}

#[tokio::test]
async fn a_part_is_read_and_the_way_on_is_told() {
    let place = Place::new();
    place.file("a.txt", "1\n2\n3\n4\n");
    let text = place.call(&Read, json!({"path": "a.txt", "offset": "2", "limit": 2.0})).await.unwrap();
    assert_eq!(text, "     2\t2\n     3\t3\n\n(more lines follow: read on with offset 4)");
    let error = place.call(&Read, json!({"file_path": "a.txt", "offset": 9})).await.unwrap_err();
    assert_eq!(error, "there is no line 9: the file has 4 lines");
}

#[tokio::test]
async fn what_is_long_is_bounded() {
    let place = Place::new();
    place.file("many", "x\n".repeat(2001));
    let text = place.call(&Read, json!({"filePath": "many"})).await.unwrap();
    assert!(text.contains("  2000\tx\n\n(more") && text.ends_with("offset 2001)"), "{text}");
    place.file("wide", format!("{}\nnext\n", "y".repeat(3_000_000)));
    let text = place.call(&Read, json!({"filePath": "wide"})).await.unwrap();
    assert!(text.len() < 3000 && text.contains("(line cut)\n     2\tnext"), "{}", text.len());
    place.file("both", format!("{}\n", "z".repeat(1000)).repeat(100));
    let text = place.call(&Read, json!({"filePath": "both"})).await.unwrap();
    assert!(text.len() < 60_000 && text.contains("read on with offset 5"), "{}", text.len());
}

#[tokio::test]
async fn what_cannot_be_shown_is_told() {
    let place = Place::new();
    place.file("dir/a.bin", b"\x7fELF\0\0");
    place.file("dir/a.png", b"\x89PNG\r\n\x1a\n\0\0");
    place.file("empty", "");
    let tell = async |path: &str| place.call(&Read, json!({"filePath": path})).await;
    assert!(tell("dir").await.unwrap_err().contains("use `list`"));
    assert!(tell("dir/a.bin").await.unwrap_err().contains("is a binary file"));
    assert!(tell("dir/b.png").await.unwrap_err().contains("Did you mean"));
    assert!(tell("/dev/zero").await.unwrap_err().contains("not a plain file"));
    assert_eq!(tell("empty").await.unwrap(), "(the file is empty)");
}

#[tokio::test]
async fn a_read_file_is_remembered() {
    let place = Place::new();
    let path = place.file("a.txt", "one");
    let stamp = Stamp::of(&path.metadata().unwrap());
    let cx = place.cx();
    assert_eq!(cx.files.state(&path, stamp), State::Unread);
    place.call(&Read, json!({"filePath": "a.txt"})).await.unwrap();
    assert_eq!(cx.files.state(&path, stamp), State::Fresh);
}

#[test]
fn reading_asks_for_where_the_path_leads() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc/hosts", place.dir().join("innocent")).unwrap();
    assert_eq!(place.asks(&Read, json!({"filePath": "./src/../a.rs"})), ["read a.rs"]);
    assert_eq!(
        place.asks(&Read, json!({"filePath": "innocent"})),
        ["read /etc/hosts", "external_directory /etc/*", "read innocent"]
    );
}

#[tokio::test]
async fn images_and_documents_are_shown_as_they_are() {
    use crate::AnyTool;
    let place = Place::new();
    place.file("a.png", b"\x89PNG\r\n\x1a\n\0\0");
    place.file("b.pdf", b"%PDF-1.7\n\0");
    place.file("c.webp", b"RIFF\0\0\0\0WEBPVP8 ");
    for (path, mime, data) in [
        ("a.png", "image/png", "iVBORw0KGgoAAA=="),
        ("b.pdf", "application/pdf", "JVBERi0xLjcKAA=="),
        ("c.webp", "image/webp", "UklGRgAAAABXRUJQVlA4IA=="),
    ] {
        let input = serde_json::value::to_raw_value(&json!({ "filePath": path })).unwrap();
        let output = AnyTool::run(&Read, &input, &place.cx()).await.unwrap();
        let [file] = &output.files[..] else { panic!("{path}: {output:?}") };
        assert_eq!((file.name.as_str(), file.mime.as_str(), file.data.as_str()), (path, mime, data));
        assert!(output.text.starts_with(&format!("`{path}`: {mime}, ")), "{}", output.text);
    }
    place.file("large.png", [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; 5 << 20]].concat());
    let error = place.call(&Read, json!({"filePath": "large.png"})).await.unwrap_err();
    assert!(error.contains("make it smaller"), "{error}");
}
