//! What only the SQLite backend can get wrong: its file, its lock, its transactions, its plans.

use super::Sqlite;
use crate::conformance::Bed;
use crate::{Batch, Commits, Error, Fence, Find, OnKept, OutboxQuery, PageKey, Query, Scope, Span, Store};
use proto::entry::Notice;
use proto::methods::MailState;
use proto::{AskId, Entry, LetterId, RunId, SessionId};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn deaf() -> OnKept {
    Arc::new(|_| {})
}

fn bed(dir: &Path) -> Bed {
    Bed::new((), |on_kept| Sqlite::open(dir, on_kept).unwrap())
}

fn saying(text: &str) -> Batch {
    Batch { at: 5, entries: vec![Entry::Notice(Notice { text: text.into() })], ..Batch::default() }
}

/// A closed store with something in it.
async fn written() -> (TempDir, SessionId) {
    let dir = tempfile::tempdir().unwrap();
    let bed = bed(dir.path());
    let session = bed.root("a").await;
    bed.say(&session, &["one", "two"]).await;
    bed.store.close().await;
    (dir, session.id)
}

fn refused(dir: &Path) -> Error {
    Sqlite::open(dir, deaf()).err().expect("a refusal")
}

#[tokio::test]
async fn reopening_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    let first = bed(dir.path());
    let session = first.root("a").await;
    first.say(&session, &["one", "two"]).await;
    let before = format!("{:?}", first.store.wake(&session.id).await.unwrap());
    first.store.close().await;
    let second = bed(dir.path());
    assert_eq!(format!("{:?}", second.store.wake(&session.id).await.unwrap()), before);
    second.say(&session, &["three"]).await;
    assert_eq!(second.log(&session).await, ["1 one", "2 two", "3 three"]);
    assert_eq!(second.store.cursor().await.unwrap(), 3);
}

#[tokio::test]
async fn a_statement_is_compiled_once_whatever_values_it_is_given() {
    let (dir, _) = written().await;
    let db = super::file::reader(&super::Place::new(dir.path())).unwrap();
    for limit in [50, 7, 1, 0, 51] {
        let sql = "SELECT id FROM sessions WHERE archived = 0 ORDER BY activity DESC, id DESC LIMIT ?1";
        let mut statement = db.prepare_cached(sql).unwrap();
        let _ = statement.query([limit]).unwrap().next().unwrap().is_some();
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0, "{limit}");
    }
}

#[tokio::test]
async fn a_second_store_is_told_who_holds_the_directory() {
    let (dir, _) = written().await;
    let first = Sqlite::open(dir.path(), deaf()).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, Error::Locked { holder: Some(pid), .. } if pid == std::process::id()), "{error}");
    // A reader needs no lock.
    Sqlite::open_read(dir.path()).unwrap();
    drop(first);
    Sqlite::open(dir.path(), deaf()).unwrap();
}

#[tokio::test]
async fn a_reader_reads_beside_the_writer_and_does_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let writing = bed(dir.path());
    let session = writing.root("a").await;
    let reading = Sqlite::open_read(dir.path()).unwrap();
    writing.say(&session, &["one"]).await;
    assert_eq!(reading.wake(&session.id).await.unwrap().entries.len(), 1);
    assert_eq!(reading.check().await.unwrap(), Vec::<String>::new());
    let error = reading.commit(&session.id, Fence::Claim, saying("two")).await.unwrap_err();
    assert!(matches!(&error, Error::Disk { .. }) && error.hint().unwrap().contains("convoke serve"));
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let (dir, _) = written().await;
    let path = dir.path().join("convoke.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(
        matches!(refused(dir.path()), Error::Newer { found: 99, known, .. } if known as usize == super::file::MIGRATIONS.len())
    );
    assert!(matches!(Sqlite::open_read(dir.path()), Err(Error::Newer { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Writes `change` over a sound database, which must then be called damaged and stay as it is.
async fn check_damage(what: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let (dir, _) = written().await;
    let path = dir.path().join("convoke.db");
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let error = refused(dir.path());
    assert!(
        matches!(&error, Error::Damaged { path: told, .. } if *told == path.display().to_string()),
        "{what}: {error}"
    );
    assert!(error.hint().is_some());
    assert!(fs::read(&path).unwrap() == bytes, "{what}: the file was changed");
}

#[tokio::test]
async fn a_damaged_file_is_reported_and_kept() {
    check_damage("text", |bytes| *bytes = b"this is a letter to my grandmother, ".repeat(9)).await;
    check_damage("short", |bytes| bytes.truncate(50)).await;
    check_damage("torn", |bytes| bytes.truncate(bytes.len() - 5000)).await;
    check_damage("zeroed header", |bytes| bytes[..100].fill(0)).await;
    check_damage("garbled schema", |bytes| bytes[100..4096].fill(0xaa)).await;
}

#[tokio::test]
async fn an_empty_file_beside_a_log_is_damage() {
    let (dir, _) = written().await;
    fs::write(dir.path().join("convoke.db"), "").unwrap();
    fs::write(dir.path().join("convoke.db-wal"), "the last thing that was said").unwrap();
    assert!(matches!(refused(dir.path()), Error::Damaged { .. }));
    assert_eq!(fs::read(dir.path().join("convoke.db-wal")).unwrap(), b"the last thing that was said");
}

#[tokio::test]
async fn somebody_elses_database_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("convoke.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(refused(dir.path()), Error::Damaged { .. }));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_page_that_rots_later_is_found_by_the_check() {
    let (dir, _) = written().await;
    let path = dir.path().join("convoke.db");
    let mut bytes = fs::read(&path).unwrap();
    // Where the log lies: a page of the schema would be found by opening already.
    let entry = bytes.windows(6).position(|text| text == b"notice").unwrap();
    let page = entry / 4096 * 4096;
    bytes[page..page + 4096].fill(0x55);
    fs::write(&path, &bytes).unwrap();
    let store = Sqlite::open_read(dir.path()).unwrap();
    let outcome = store.check().await;
    assert!(matches!(&outcome, Err(Error::Damaged { .. })) || outcome.is_ok_and(|found| !found.is_empty()));
}

#[test]
fn a_directory_that_cannot_be_made_is_a_matter_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let error = refused(&file.join("state"));
    assert!(matches!(error, Error::Disk { .. }), "{error}");
    assert!(error.hint().unwrap().contains("CONVOKE_HOME"));
}

#[test]
fn a_read_only_directory_is_a_matter_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let may_write_anyway = fs::write(dir.path().join("probe"), "").is_ok();
    let outcome = Sqlite::open(dir.path(), deaf());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    // The superuser is refused by nothing here; then opening has to work.
    assert_eq!(outcome.is_ok(), may_write_anyway);
    if let Err(error) = outcome {
        assert!(matches!(error, Error::Disk { .. }) && error.hint().is_some());
    }
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("state");
    let bed = bed(&dir);
    bed.root("a").await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["convoke.db", "convoke.db-wal", "convoke.db-shm", "lock"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    bed.store.close().await;
    fs::set_permissions(dir.join("convoke.db"), fs::Permissions::from_mode(0o644)).unwrap();
    drop(Sqlite::open(&dir, deaf()).unwrap());
    assert_eq!(mode(&dir.join("convoke.db")), 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_together_is_written_together() {
    let dir = tempfile::tempdir().unwrap();
    let names = bed(dir.path());
    let mut sessions = Vec::new();
    for index in 0..64 {
        sessions.push(names.root(&format!("s{index}")).await.id);
    }
    names.store.close().await;
    let store = Arc::new(Sqlite::open(dir.path(), deaf()).unwrap());
    let tasks = sessions.into_iter().map(|id| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                store.commit(&id, Fence::Claim, saying("hello")).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let Commits { transactions, operations, seconds, .. } = store.commits();
    assert_eq!(operations, 64 * 20);
    assert!(transactions * 4 < operations, "{operations} operations took {transactions} transactions");
    assert!(seconds > 0.0);
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let bed = bed(dir.path());
    let session = bed.root("a").await;
    bed.say(&session, &["before"]).await;
    bed.store.close().await;
    let pages = fs::metadata(dir.path().join("convoke.db")).unwrap().len() / 4096;
    let tight = Sqlite::open_with(dir.path(), deaf(), |db| {
        db.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |_| Ok(()))
    })
    .unwrap();
    let big = "x".repeat(64 << 10);
    let error = tight.commit(&session.id, Fence::Claim, saying(&big)).await.unwrap_err();
    assert!(matches!(&error, Error::Disk { hint, .. } if hint.contains("free some space")), "{error}");
    assert_eq!(tight.session(&session.id).await.unwrap().unwrap().seq, 1);
    tight.commit(&session.id, Fence::Claim, saying("small")).await.unwrap();
    assert_eq!(tight.check().await.unwrap(), Vec::<String>::new());
}

fn ask_for_mail(db: &Connection, id: &SessionId) {
    use super::messages::{held, sent};
    use crate::{HeldQuery, HeldState, MailKey, SentQuery};
    let after = || Some(MailKey { posted: 1, id: LetterId::new() });
    for session in [None, Some(id.clone())] {
        for states in [vec![], vec![HeldState::Held], vec![HeldState::Refused, HeldState::Expired]] {
            held(db, &HeldQuery { states, session: session.clone(), after: after(), limit: 9, ..HeldQuery::default() })
                .unwrap();
        }
        for unread in [None, Some(true), Some(false)] {
            sent(db, &SentQuery { unread, session: session.clone(), after: after(), limit: 9, ..SentQuery::default() })
                .unwrap();
        }
    }
    held(db, &HeldQuery { id: Some(LetterId::new()), limit: 1, ..HeldQuery::default() }).unwrap();
    sent(db, &SentQuery { id: Some(LetterId::new()), limit: 1, ..SentQuery::default() }).unwrap();
}

fn ask_for_tasks(db: &Connection, id: &SessionId) {
    use crate::BoardQuery;
    use proto::{Holder, TaskState};
    for query in [
        BoardQuery { limit: 9, ..BoardQuery::default() },
        BoardQuery { limit: 9, states: vec![TaskState::Pending, TaskState::Done], ..BoardQuery::default() },
        BoardQuery { limit: 9, owner: Some(Holder::Person), ..BoardQuery::default() },
        BoardQuery { limit: 1, number: Some(1), ..BoardQuery::default() },
    ] {
        super::board::board(db, id, &query).unwrap();
    }
}

/// Every question but those about all open asks and everything unfinished, which are few.
fn ask_everything(db: &Connection, id: &SessionId) {
    use super::read;
    let after = || Some(PageKey { activity: 1, id: id.clone() });
    let query = |scope, parent, label| Query { limit: 9, after: after(), scope, parent, label, ..Query::default() };
    let label = || Some("x".to_owned());
    for query in [
        query(Scope::All, None, None),
        query(Scope::Owner("build".into()), None, None),
        query(Scope::Below(id.clone()), None, None),
        query(Scope::All, Some(id.clone()), None),
        query(Scope::All, None, label()),
        Query { active_since: Some(1), kinds: vec!["main".into()], ..query(Scope::All, None, None) },
    ] {
        read::list(db, &query).unwrap();
    }
    for find in [
        Find::Key("k".into()),
        Find::Label { label: "x".into(), owner: None },
        Find::Members { root: id.clone(), limit: 9 },
        Find::Named { root: id.clone(), name: "x".into() },
        Find::Called { name: "x".into() },
        Find::Ending("0a1b2c".into()),
        Find::Label { label: "x".into(), owner: Some("build".into()) },
        Find::NewestIn("/".into()),
        Find::Newest,
    ] {
        read::find(db, &find).unwrap();
    }
    read::wake(db, id).unwrap();
    read::entries(db, id, Span::Before { seq: 9, limit: 9 }).unwrap();
    read::inbox(db, id, 3).unwrap();
    read::letters(db, id, &[LetterId::new()]).unwrap();
    read::tree(db, id, 9).unwrap();
    read::busy_below(db, id, 9).unwrap();
    read::live_children(db, id).unwrap();
    read::run(db, &RunId::new()).unwrap();
    ask_for_mail(db, id);
    ask_for_tasks(db, id);
    read::asks(db, Some(id)).unwrap();
    read::ask(db, &AskId::new()).unwrap();
    read::kept_since(db, Some(id), 0, 9).unwrap();
    read::kept_since(db, None, 0, 9).unwrap();
    read::kept_next(db, Some(id), 0).unwrap();
    read::kept_next(db, None, 0).unwrap();
    read::waits_for(db, id, id).unwrap();
    read::awaits_news(db, id).unwrap();
    read::owes_news(db).unwrap();
    read::outbox(db, "uds:/x", 9).unwrap();
    read::outbox_addresses(db, 9).unwrap();
    read::settled_before(db, 9, 9).unwrap();
    for query in [
        OutboxQuery { limit: 9, ..OutboxQuery::default() },
        OutboxQuery { limit: 9, sender: Some(id.clone()), ..OutboxQuery::default() },
        OutboxQuery { limit: 9, state: Some(MailState::Queued), ..OutboxQuery::default() },
        OutboxQuery { limit: 9, state: Some(MailState::Held), ..OutboxQuery::default() },
    ] {
        read::outgoing(db, &query).unwrap();
    }
    super::purses::chain(db, &RunId::parse("run").unwrap()).unwrap();
    read::cursor(db).unwrap();
    read::cursor_before(db, &LetterId::new()).unwrap();
}

#[tokio::test]
async fn every_question_is_an_index_range() {
    let (dir, id) = written().await;
    let db = Connection::open(dir.path().join("convoke.db")).unwrap();
    super::read::asked::take();
    ask_everything(&db, &id);
    for sql in super::read::asked::take() {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let values = vec![1; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        for step in steps.map(Result::unwrap) {
            // A page's order comes from its index; the few busy ones, those who share a label or a name and unread mail are
            // sorted.
            let may_sort = ["s.depth", "s.label = ?", "h.pending > 0", "GROUP BY tree", "min(n)"]
                .iter()
                .any(|part| sql.contains(part));
            // An index read in its own order stops at the page's end; what a recursion reached is read once.
            let may_scan = [
                "sessions_page",
                "sessions_roots",
                "letters_page",
                "held_page",
                "held_waiting",
                "outbox_page",
                "outbox_waiting",
                "runs_awaited",
                "heads_unread",
                "SCAN r",
                "SCAN reached",
                "SCAN CONSTANT ROW",
            ];
            let may_scan = may_scan.iter().any(|end| step.ends_with(end));
            assert!(!step.starts_with("SCAN") || may_scan, "{step}\n{sql}");
            assert!(!step.contains("TEMP B-TREE") || may_sort, "{step}\n{sql}");
        }
    }
}

#[tokio::test]
async fn restarting_asks_only_the_busy_and_the_unread() {
    let (dir, _) = written().await;
    let db = Connection::open(dir.path().join("convoke.db")).unwrap();
    super::read::asked::take();
    super::read::unfinished(&db, None, 9).unwrap();
    let sql = super::read::asked::take().pop_first().unwrap();
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.query_map(["", "1"], |row| row.get::<_, String>(3)).unwrap();
    let plan = steps.map(Result::unwrap).collect::<Vec<_>>().join("\n");
    assert!(plan.contains("INDEX sessions_busy") && plan.contains("INDEX heads_unread"), "{plan}");
}
