//! Tests of `apply_patch` as a whole; how lines are found is tested beside that.

use super::ApplyPatch;
use crate::read::Read;
use crate::testing::Place;
use serde_json::json;

async fn call(place: &Place, files: &str) -> Result<String, String> {
    place.call(&ApplyPatch, json!({ "patch": format!("*** Begin Patch\n{files}\n*** End Patch") })).await
}

#[tokio::test]
async fn files_are_added_changed_moved_and_deleted() {
    let place = Place::new();
    place.file("a.txt", "one\r\ntwo\r\n");
    place.file("old.txt", "x\n");
    place.file("gone.txt", "y\n");
    let patch = "*** Add File: deep/new.txt\n+hello\n*** Update File: a.txt\n one\n-two\n+2\n\
                 *** Update File: old.txt\n*** Move to: moved.txt\n-x\n+z\n*** Delete File: gone.txt";
    let told = call(&place, patch).await.unwrap();
    assert_eq!(told, "added `deep/new.txt`\nupdated `a.txt`\nmoved `old.txt` to `moved.txt`\n\ndeleted `gone.txt`\n");
    assert_eq!((place.content("deep/new.txt"), place.content("a.txt")), ("hello\n".into(), "one\r\n2\r\n".into()));
    assert_eq!(place.content("moved.txt"), "z\n");
    assert!(!place.dir().join("old.txt").exists() && !place.dir().join("gone.txt").exists());
}

#[tokio::test]
async fn when_one_change_does_not_fit_none_is_made() {
    let place = Place::new();
    place.file("a.txt", "one\n");
    place.file("b.txt", "two\n");
    let update = "*** Update File: a.txt\n-one\n+1\n*** Add File: c.txt\n+x\n";
    for (second, why) in [
        ("*** Update File: b.txt\n-three\n+3", "not in the file"),
        ("*** Add File: b.txt\n+x", "exists: update it instead"),
        ("*** Delete File: d.txt", "d.txt"),
        ("*** Update File: a.txt\n-one\n+2", "changed twice"),
    ] {
        let error = call(&place, &format!("{update}{second}")).await.unwrap_err();
        assert!(error.contains(why), "{error}");
        assert_eq!((place.content("a.txt"), place.content("b.txt")), ("one\n".into(), "two\n".into()));
        assert!(!place.dir().join("c.txt").exists());
    }
}

#[tokio::test]
async fn a_file_somebody_changed_must_be_read_again() {
    let place = Place::new();
    place.file("a.txt", "one\n");
    place.call(&Read, json!({ "filePath": "a.txt" })).await.unwrap();
    place.file("a.txt", "one\nand more\n");
    let error = call(&place, "*** Update File: a.txt\n-one\n+1").await.unwrap_err();
    assert!(error.contains("changed since you read it"), "{error}");
}

#[test]
fn every_file_it_names_is_asked_for() {
    let place = Place::new();
    let patch =
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: ../b.txt\n-x\n*** Delete File: c.txt\n*** End Patch";
    let asked = place.asks(&ApplyPatch, json!({ "patch": patch }));
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("edit ")).count(), 3, "{asked:?}");
    assert!(asked.iter().any(|asked| asked.starts_with("external_directory ")), "{asked:?}");
}

#[test]
fn what_is_changed_or_moved_is_read_as_well() {
    let place = Place::new();
    let patch = "*** Begin Patch\n*** Update File: .env\n*** Move to: shown\n*** Delete File: old\n*** Add File: new\n+x\n\
                 *** End Patch";
    let asks = place.asks(&ApplyPatch, json!({ "patch": patch }));
    assert_eq!(asks, ["edit .env", "read .env", "edit shown", "edit old", "edit new"]);
}

/// A small disk of its own, which goes with this. None where nobody may mount one.
struct Disk(tempfile::TempDir);

impl Disk {
    fn small() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_a_patch_is_made_whole_or_not_at_all() {
    let Some(disk) = Disk::small() else { return eprintln!("skipped: nobody may mount a disk here") };
    let dir = disk.0.path().canonicalize().unwrap();
    let long = |line: &str, times: usize| format!("+{line}\n").repeat(times);
    let large = long(&"x".repeat(99), 3000);
    for (what, patch) in [
        ("a change, then what is too large", format!("*** Update File: a\n-one\n+1\n*** Add File: b\n{large}")),
        ("what goes, then what is too large", format!("*** Delete File: a\n*** Add File: new/er/b\n{large}")),
        (
            "what moves, then what is too large",
            format!("*** Update File: a\n*** Move to: c\n-one\n+1\n*** Add File: new/b\n{large}"),
        ),
        (
            "several that fit alone",
            (0..4).map(|n| format!("*** Add File: f{n}\n{}", long(&"x".repeat(99), 1000))).collect(),
        ),
    ] {
        std::fs::write(dir.join("a"), "one\n").unwrap();
        let place = Place::new();
        let cx = crate::ToolCx { dir: dir.clone(), worktree: dir.clone(), ..place.cx() };
        let input = json!({ "patch": format!("*** Begin Patch\n{}\n*** End Patch", patch.trim_end()) });
        let input = serde_json::value::to_raw_value(&input).unwrap();
        let told = crate::AnyTool::run(&ApplyPatch, &input, &cx).await.map(|output| output.text);
        assert!(told.as_ref().is_err_and(|error| error.to_string().contains("No space")), "{what}: {told:?}");
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(
            (left, std::fs::read_to_string(dir.join("a")).unwrap()),
            (vec!["a".into()], "one\n".into()),
            "{what}"
        );
    }
}
