//! Rules of session rows: names, pages, trees.

use super::Bed;
use super::bed::{child, control, fork, prompt, root, take, worktree};
use crate::{Batch, Error, Find, Mail, PageKey, Query, Retire, RowChange, Scope, Session};
use proto::{Class, SessionId, Status, Usage};

async fn try_open(bed: &Bed, session: Session) -> Result<(), Error> {
    bed.store.deliver(Mail { at: 1, open: vec![session], ..Mail::default() }).await.map(drop)
}

pub async fn keys_and_ids_are_unique(bed: Bed) {
    let session = bed.root("a").await;
    let same_key = try_open(&bed, root("a")).await;
    assert!(matches!(same_key, Err(Error::Taken { what, holder })
        if what == "key `agent:build:a`" && holder == session.id.as_str()));
    let same_id = try_open(&bed, Session { key: "agent:build:b".into(), ..session.clone() }).await;
    assert!(matches!(same_id, Err(Error::Taken { holder, .. }) if holder == "agent:build:a"));
    let twins = Mail { at: 1, open: vec![root("twin"), root("twin")], ..Mail::default() };
    assert!(matches!(bed.store.deliver(twins).await, Err(Error::Taken { .. })));
    assert!(bed.store.find(&Find::Key("agent:build:twin".into())).await.unwrap().is_empty());
}

pub async fn a_label_belongs_to_one_live_session(bed: Bed) {
    let labelled = |name: &str| Session { label: Some("ci".into()), ..root(name) };
    let holder = bed.open(labelled("a")).await;
    let taken = try_open(&bed, labelled("b")).await;
    assert!(matches!(taken, Err(Error::Taken { what, holder: key }) if what == "label `ci`" && key == holder.key));
    // Another owner agent has labels of its own.
    bed.open(Session { owner: "plan".into(), ..labelled("c") }).await;
    bed.status(&holder, Status::Done).await;
    let heir = bed.open(labelled("d")).await;
    assert_eq!(bed.row(&holder).await.label, None);
    // Resumed, the old holder is live again, but the label is gone.
    bed.post(prompt(&holder, Class::Request)).await.unwrap();
    let find = Find::Label { label: "ci".into(), owner: Some("build".into()) };
    assert_eq!(bed.store.find(&find).await.unwrap()[0].id, heir.id);
    // An ended holder is found by it while nobody else takes it, and still has it when it comes back.
    bed.status(&heir, Status::Failed).await;
    assert_eq!(bed.store.find(&find).await.unwrap()[0].id, heir.id);
    bed.post(prompt(&heir, Class::Request)).await.unwrap();
    assert!(matches!(try_open(&bed, labelled("e")).await, Err(Error::Taken { .. })));
    // An archived one does not keep it.
    bed.open(Session { label: Some("old".into()), archived: true, ..root("f") }).await;
    bed.open(Session { label: Some("old".into()), ..root("g") }).await;
}

async fn try_retire(bed: &Bed, session: &Session, free: bool, open: Vec<Session>) -> Result<(), Error> {
    let retire = vec![Retire { session: session.id.clone(), free }];
    bed.store.deliver(Mail { at: 1, retire, open, ..Mail::default() }).await.map(drop)
}

pub async fn what_is_put_away_is_out_of_reach_with_all_below(bed: Bed) {
    let (top, other) = (bed.root("a").await, bed.root("b").await);
    let below = bed.open(child(&top, "c")).await;
    bed.status(&below, Status::Running).await;
    let busy = try_retire(&bed, &top, false, Vec::new()).await;
    assert!(matches!(busy, Err(Error::Busy(id)) if id == below.id));
    assert!(!bed.row(&top).await.archived);
    bed.status(&below, Status::Done).await;
    try_retire(&bed, &top, false, Vec::new()).await.unwrap();
    assert!(bed.row(&top).await.archived && bed.row(&below).await.archived && !bed.row(&other).await.archived);
    let listed = bed.store.list(&Query { limit: 10, ..Query::default() }).await.unwrap().sessions;
    assert_eq!(listed.iter().map(|row| &row.id).collect::<Vec<_>>(), [&other.id]);
    assert!(matches!(bed.post(prompt(&below, Class::Request)).await, Err(Error::NoSession(_))));
    let gone = try_retire(&bed, &root("never"), false, Vec::new()).await;
    assert!(matches!(gone, Err(Error::NoSession(_))));
}

pub async fn a_key_that_was_given_back_is_taken_in_the_same_moment(bed: Bed) {
    let labelled = || Session { label: Some("ci".into()), ..root("a") };
    let old = bed.open(labelled()).await;
    // Letters that nobody read keep it where it is.
    let letter = bed.post(prompt(&old, Class::Request)).await.unwrap().letter;
    let heir = labelled();
    assert!(matches!(try_retire(&bed, &old, true, vec![heir.clone()]).await, Err(Error::Busy(_))));
    assert!(bed.store.session(&heir.id).await.unwrap().is_none());
    bed.commit(&old, take(&[&letter])).await.unwrap();
    bed.status(&old, Status::Idle).await;
    try_retire(&bed, &old, true, vec![heir.clone()]).await.unwrap();
    let found = bed.store.find(&Find::Key(heir.key.clone())).await.unwrap();
    assert_eq!(found.iter().map(|row| &row.id).collect::<Vec<_>>(), [&heir.id]);
    let old = bed.row(&old).await;
    assert_eq!((old.key, old.label), (format!("{}:was:{}", heir.key, old.id), None));
}

pub async fn a_label_is_given_and_taken_away(bed: Bed) {
    let (one, two) = (bed.root("a").await, bed.root("b").await);
    let relabel = async |session: &Session, label: Option<&str>| {
        let label = vec![(session.id.clone(), label.map(str::to_owned))];
        bed.store.deliver(Mail { at: 1, label, ..Mail::default() }).await.map(drop)
    };
    relabel(&one, Some("ci")).await.unwrap();
    relabel(&one, Some("ci")).await.unwrap();
    assert!(matches!(relabel(&two, Some("ci")).await, Err(Error::Taken { .. })));
    assert_eq!((bed.row(&one).await.label.as_deref(), bed.row(&two).await.label), (Some("ci"), None));
    relabel(&one, None).await.unwrap();
    relabel(&two, Some("ci")).await.unwrap();
    assert!(matches!(relabel(&root("never"), Some("x")).await, Err(Error::NoSession(_))));
}

pub async fn a_name_belongs_to_one_live_agent_of_a_tree(bed: Bed) {
    let (one, other) = (bed.root("a").await, bed.root("b").await);
    let named = |parent: &Session, key: &str| Session { name: Some("scout".into()), ..child(parent, key) };
    let first = bed.open(named(&one, "c")).await;
    let taken = try_open(&bed, named(&first, "d")).await;
    assert!(
        matches!(taken, Err(Error::Taken { what, holder }) if what == "name `scout`" && holder == first.id.as_str())
    );
    // Another tree has names of its own.
    bed.open(named(&other, "e")).await;
    bed.status(&first, Status::Done).await;
    let second = bed.open(named(&one, "f")).await;
    // Whoever had the name is still found by it, after whoever has it.
    let found = bed.store.find(&Find::Named { root: one.id.clone(), name: "scout".into() }).await.unwrap();
    assert_eq!(found.iter().map(|row| &row.id).collect::<Vec<_>>(), [&second.id, &first.id]);
    assert!(bed.store.find(&Find::Named { root: one.id, name: "nobody".into() }).await.unwrap().is_empty());
}

pub async fn a_name_is_found_in_every_tree_that_has_it(bed: Bed) {
    let (one, other) = (bed.root("a").await, bed.root("b").await);
    let named = |parent: &Session, key: &str| Session { name: Some("scout".into()), ..child(parent, key) };
    let first = bed.open(named(&one, "c")).await;
    bed.status(&first, Status::Done).await;
    let elsewhere = bed.open(named(&other, "d")).await;
    let second = bed.open(named(&one, "e")).await;
    bed.open(Session { archived: true, ..named(&bed.root("f").await, "g") }).await;
    let found = bed.store.find(&Find::Called { name: "scout".into() }).await.unwrap();
    // Of each tree whoever has the name now.
    assert_eq!(found.iter().map(|row| &row.id).collect::<Vec<_>>(), [&second.id, &elsewhere.id]);
    assert!(bed.store.find(&Find::Called { name: "nobody".into() }).await.unwrap().is_empty());
}

pub async fn the_end_of_an_id_finds_its_session(bed: Bed) {
    let open = async |name: &str, id: &str, archived: bool| {
        let id = SessionId::parse(id).unwrap();
        bed.open(Session { path: format!("{id}/"), root: id.clone(), id, archived, ..root(name) }).await;
    };
    open("a", "ses_0190aaaa0001beef", false).await;
    open("b", "ses_0190aaaa0002beef", false).await;
    open("c", "ses_0190aaaa0003cafe", false).await;
    open("gone", "ses_0190aaaa0004cafe", true).await;
    let found = async |end: &str| {
        let found = bed.store.find(&Find::Ending(end.into())).await.unwrap();
        found.into_iter().map(|row| row.key.rsplit(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("beef").await, ["b", "a"]);
    assert_eq!(found("1beef").await, ["a"]);
    assert_eq!(found("cafe").await, ["c"]);
    assert_eq!(found("ses_0190aaaa0003cafe").await, ["c"]);
    for nothing in ["", "eef", "dead", "BEEF", "xses_0190aaaa0003cafe", "%beef", "grüß", "_eef"] {
        assert_eq!(found(nothing).await, [""; 0], "{nothing}");
    }
}

pub async fn an_opened_session_starts_empty(bed: Bed) {
    let usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost_usd: 0.25 };
    let given = Session { seq: 7, pending: 3, usage, title: Some("t".into()), ..root("a") };
    bed.open(given.clone()).await;
    let expected = Session { seq: 0, pending: 0, ..given };
    assert_eq!(format!("{:?}", bed.row(&expected).await), format!("{expected:?}"));
}

pub async fn relatives_must_exist(bed: Bed) {
    let ghost = root("ghost");
    let orphan = child(&ghost, "orphan");
    assert!(matches!(try_open(&bed, orphan).await, Err(Error::NoSession(id)) if id == ghost.id));
    let stray = Session { root: ghost.id.clone(), ..root("stray") };
    assert!(matches!(try_open(&bed, stray).await, Err(Error::NoSession(id)) if id == ghost.id));
    // A parent and its child may come together.
    let mail = Mail { at: 1, open: vec![ghost.clone(), child(&ghost, "below")], ..Mail::default() };
    bed.store.deliver(mail).await.unwrap();
    assert_eq!(bed.store.tree(&ghost.id, 9).await.unwrap().len(), 2);
}

pub async fn selectors_find_their_session(bed: Bed) {
    let at = |name: &str, activity, cwd: &str| Session { activity, cwd: cwd.into(), ..root(name) };
    let old = bed.open(at("old", 10, "/a")).await;
    let newest_in_a = bed.open(at("newer", 20, "/a")).await;
    let newest = bed.open(at("newest", 30, "/b")).await;
    bed.open(Session { activity: 90, cwd: "/a".into(), label: Some("x".into()), ..child(&old, "child") }).await;
    bed.open(Session { archived: true, ..at("archived", 99, "/a") }).await;
    bed.open(Session { owner: "plan".into(), label: Some("x".into()), ..at("plan", 5, "/c") }).await;
    let find = async |what: Find| {
        let found = bed.store.find(&what).await.unwrap();
        found.into_iter().map(|session| session.key).collect::<Vec<_>>()
    };
    assert_eq!(find(Find::Newest).await, [newest.key]);
    assert_eq!(find(Find::NewestIn("/a".into())).await, [newest_in_a.key]);
    assert!(find(Find::NewestIn("/none".into())).await.is_empty());
    assert_eq!(find(Find::Key(old.key.clone())).await, [old.key]);
    assert!(find(Find::Key("agent:build:none".into())).await.is_empty());
    let label = |owner: Option<&str>| Find::Label { label: "x".into(), owner: owner.map(Into::into) };
    assert_eq!(find(label(None)).await, ["agent:build:child", "agent:build:plan"]);
    assert_eq!(find(label(Some("plan"))).await, ["agent:build:plan"]);
    assert!(find(label(Some("none"))).await.is_empty());
}

async fn page(bed: &Bed, query: Query) -> (Vec<String>, Option<PageKey>) {
    let page = bed.store.list(&query).await.unwrap();
    let names = page.sessions.iter().map(|session| session.key.rsplit(':').next().unwrap().to_owned());
    (names.collect(), page.next)
}

pub async fn pages_are_stable_under_inserts(bed: Bed) {
    // Two share each moment, so that the id has to decide.
    for index in 0..10 {
        bed.open(Session { activity: index / 2, ..root(&format!("s{index}")) }).await;
    }
    let query = |after| Query { limit: 3, after, ..Query::default() };
    let (mut seen, mut after) = page(&bed, query(None)).await;
    let mut pages = 1;
    while let Some(key) = after {
        // Newer ones and one among those already shown must not shift what follows.
        bed.open(Session { activity: 100 + pages, ..root(&format!("new{pages}")) }).await;
        let (names, next) = page(&bed, query(Some(key))).await;
        seen.extend(names);
        (after, pages) = (next, pages + 1);
    }
    assert_eq!(seen, ["s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    assert_eq!(pages, 4);
    let whole = page(&bed, Query { limit: 13, ..Query::default() }).await;
    assert_eq!((whole.0.len(), whole.1), (13, None));
}

pub async fn every_scope_has_its_pages(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let a = bed.open(Session { activity: 3, ..child(&one, "a") }).await;
    bed.open(Session { activity: 2, ..child(&a, "aa") }).await;
    bed.open(Session { activity: 4, ..child(&one, "b") }).await;
    bed.open(Session { activity: 5, owner: "plan".into(), ..child(&two, "c") }).await;
    let scope = |scope| Query { limit: 9, scope, ..Query::default() };
    assert_eq!(page(&bed, scope(Scope::All)).await.0, ["c", "b", "a", "aa", "two", "one"]);
    assert_eq!(page(&bed, scope(Scope::Owner("plan".into()))).await.0, ["c"]);
    assert_eq!(page(&bed, scope(Scope::Owner("none".into()))).await.0, Vec::<String>::new());
    assert_eq!(page(&bed, scope(Scope::Below(one.id.clone()))).await.0, ["b", "a", "aa", "one"]);
    assert_eq!(page(&bed, scope(Scope::Below(a.id.clone()))).await.0, ["a", "aa"]);
    assert_eq!(page(&bed, scope(Scope::Below(root("ghost").id))).await.0, Vec::<String>::new());
    for scope in [Scope::Owner("build".into()), Scope::Below(one.id.clone()), Scope::Below(a.id.clone()), Scope::All] {
        let query = |limit, after| Query { limit, after, scope: scope.clone(), ..Query::default() };
        let (whole, _) = page(&bed, query(9, None)).await;
        let (first, next) = page(&bed, query(1, None)).await;
        let (rest, end) = page(&bed, query(9, next)).await;
        assert_eq!(([first, rest].concat(), end), (whole, None), "{scope:?}");
    }
}

pub async fn filters_narrow_a_page(bed: Bed) {
    let top = bed.open(Session { kind: "cron".into(), activity: 1, ..root("top") }).await;
    bed.open(Session { kind: "hook".into(), activity: 2, label: Some("x".into()), ..child(&top, "a") }).await;
    bed.open(Session { kind: "main".into(), activity: 3, ..child(&top, "b") }).await;
    bed.open(Session { kind: "cron".into(), activity: 4, ..root("c") }).await;
    let all = || Query { limit: 9, ..Query::default() };
    assert_eq!(page(&bed, Query { kinds: vec!["cron".into()], ..all() }).await.0, ["c", "top"]);
    let two = vec!["cron".into(), "hook".into()];
    assert_eq!(page(&bed, Query { kinds: two, active_since: Some(2), ..all() }).await.0, ["c", "a"]);
    assert_eq!(page(&bed, Query { label: Some("x".into()), ..all() }).await.0, ["a"]);
    assert_eq!(page(&bed, Query { parent: Some(top.id.clone()), ..all() }).await.0, ["b", "a"]);
    let both = Query { parent: Some(top.id), scope: Scope::Owner("none".into()), ..all() };
    assert_eq!(page(&bed, both).await.0, Vec::<String>::new());
}

pub async fn archived_sessions_are_not_listed(bed: Bed) {
    let top = bed.root("top").await;
    bed.open(Session { archived: true, label: Some("x".into()), ..child(&top, "gone") }).await;
    for scope in [Scope::All, Scope::Owner("build".into()), Scope::Below(top.id.clone())] {
        assert_eq!(page(&bed, Query { limit: 9, scope, ..Query::default() }).await.0, ["top"]);
    }
    assert!(bed.store.find(&Find::Label { label: "x".into(), owner: None }).await.unwrap().is_empty());
    let key = Find::Key("agent:build:gone".into());
    assert!(bed.store.find(&key).await.unwrap()[0].archived);
}

pub async fn a_tree_is_in_order_of_birth(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let a = bed.open(Session { activity: 9, ..child(&one, "a") }).await;
    bed.child(&two, "other").await;
    bed.open(Session { archived: true, ..child(&a, "aa") }).await;
    bed.open(Session { activity: 5, ..fork(&one, 0, "f") }).await;
    let tree = async |root: &Session, limit| {
        let tree = bed.store.tree(&root.id, limit).await.unwrap();
        tree.into_iter().map(|session| session.key.replace("agent:build:", "")).collect::<Vec<_>>()
    };
    assert_eq!(tree(&one, 9).await, ["one", "a", "aa", "f"]);
    assert_eq!(tree(&one, 2).await, ["one", "a"]);
    assert_eq!(tree(&a, 9).await, Vec::<String>::new());
}

pub async fn busy_descendants_are_nearest_first(bed: Bed) {
    let (top, other) = (bed.root("top").await, bed.root("other").await);
    let a = bed.child(&top, "a").await;
    let aa = bed.child(&a, "aa").await;
    let b = bed.child(&top, "b").await;
    let c = bed.child(&top, "c").await;
    let d = bed.child(&other, "d").await;
    for (session, status) in [
        (&top, Status::Running),
        (&aa, Status::Waiting),
        (&b, Status::Retrying),
        (&a, Status::Idle),
        (&c, Status::Done),
        (&d, Status::Asking),
    ] {
        bed.status(session, status).await;
    }
    let busy = async |session: &Session, limit| bed.store.busy_below(&session.id, limit).await.unwrap();
    assert_eq!(busy(&top, 9).await, [b.id.clone(), aa.id.clone()]);
    assert_eq!(busy(&top, 1).await, [b.id]);
    assert!(busy(&aa, 9).await.is_empty());
    assert_eq!(busy(&a, 9).await, [aa.id]);
    assert_eq!(busy(&other, 9).await, [d.id]);
}

pub async fn a_directory_has_those_who_are_busy_in_it_and_those_who_entered_it(bed: Bed) {
    let at = |name: &str, cwd: &str| Session { cwd: cwd.into(), ..root(name) };
    let (there, below) = (at("there", "/w/x"), at("below", "/w/x/src"));
    let (beside, idle) = (at("beside", "/w/xy"), at("idle", "/w/x"));
    let entered = Session { worktree: Some(worktree("/w/x", "/home/me")), activity: 7, ..at("entered", "/w/x") };
    let gone = Session { archived: true, worktree: Some(worktree("/w/x", "/home/me")), ..at("gone", "/w/x") };
    for session in [&there, &below, &beside, &idle, &entered, &gone] {
        bed.open(session.clone()).await;
    }
    for session in [&there, &below, &beside] {
        bed.status(session, Status::Waiting).await;
    }
    let inside = async |dir: &str| {
        let mut keys: Vec<String> = bed.store.inside(dir, 9).await.unwrap().into_iter().map(|s| s.key).collect();
        keys.sort();
        keys
    };
    assert_eq!(inside("/w/x").await, ["agent:build:below", "agent:build:entered", "agent:build:there"]);
    assert_eq!(inside("/w/x/src").await, ["agent:build:below"]);
    assert!(inside("/nowhere").await.is_empty());
    assert_eq!(bed.store.inside("/w/x", 1).await.unwrap().len(), 1);
    // Whoever goes on where it was started finds it, wherever it went.
    let newest = bed.store.find(&Find::NewestIn("/home/me".into())).await.unwrap();
    assert_eq!(newest.into_iter().map(|s| s.id).collect::<Vec<_>>(), [entered.id]);
}

pub async fn live_children_are_counted(bed: Bed) {
    let top = bed.root("top").await;
    let a = bed.child(&top, "a").await;
    bed.child(&a, "aa").await;
    let b = bed.child(&top, "b").await;
    bed.open(Session { archived: true, ..child(&top, "gone") }).await;
    let count = async || bed.store.live_children(&top.id).await.unwrap();
    assert_eq!(count().await, 2);
    bed.status(&b, Status::Killed).await;
    assert_eq!(count().await, 1);
    bed.post(prompt(&b, Class::Request)).await.unwrap();
    assert_eq!(count().await, 2);
}

pub async fn unfinished_sessions_are_the_busy_and_the_unread(bed: Bed) {
    let idle = bed.root("idle").await;
    let busy = bed.root("busy").await;
    let unread = bed.root("unread").await;
    let both = bed.root("both").await;
    bed.status(&busy, Status::Waiting).await;
    bed.status(&unread, Status::Done).await;
    let letter = bed.post(control(&unread)).await.unwrap().letter;
    bed.post(prompt(&both, Class::Request)).await.unwrap();
    let read = async |after: Option<&Session>, limit| {
        bed.store.unfinished(after.map(|session| &session.id), limit).await.unwrap()
    };
    assert_eq!(read(None, 9).await, [busy.id.clone(), unread.id.clone(), both.id.clone()]);
    assert_eq!(read(None, 2).await, [busy.id.clone(), unread.id.clone()]);
    assert_eq!(read(Some(&unread), 9).await, std::slice::from_ref(&both.id));
    bed.commit(&unread, Batch { entries: vec![], ..take(&[&letter]) }).await.unwrap();
    bed.set(&busy, RowChange { status: Some(Status::Idle), ..RowChange::default() }).await;
    assert_eq!(read(Some(&idle), 9).await, [both.id]);
}

pub async fn a_tree_is_quiet_when_nobody_in_it_is_busy(bed: Bed) {
    let top = bed.root("top").await;
    let below = bed.child(&top, "below").await;
    assert!(bed.store.is_quiet(&top.id).await.unwrap());
    bed.post(crate::conformance::bed::request(&below)).await.unwrap();
    assert!(!bed.store.is_quiet(&top.id).await.unwrap());
    assert!(!bed.store.is_quiet(&below.id).await.unwrap());
}
