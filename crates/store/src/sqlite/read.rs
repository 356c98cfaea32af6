//! What readers ask. Every question here is answered from a range of an index; a test holds them to it.

use super::fault::Result;
use super::value::{self, SESSION, from_json, from_word, int, session_id, text, word};
use crate::{
    Ahead, Ask, Awake, Error, Fate, Find, Kept, MIN_ENDING, MailKey, OutboxQuery, PAGE_BYTES, Page, PageKey, Parcel,
    Query, Run, Scope, Session, Span, Unread,
};
use proto::entry::Stored;
use proto::methods::MailState;
use proto::{AskId, Letter, LetterId, Millis, RunId, SessionId};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row, params, params_from_iter};

/// As in the partial indexes, word for word: that is how SQLite knows it may use them.
const BUSY: &str = "s.status IN ('queued', 'running', 'waiting', 'asking', 'retrying')";
const NOT_ENDED: &str = "s.status NOT IN ('done', 'failed', 'killed', 'timeout', 'interrupted')";

/// The longest page anyone gets.
const PAGE: usize = 1000;

/// How many sessions one selector may name.
const FOUND: usize = 10;

/// A compiled statement, from the connection's cache.
pub(super) fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    #[cfg(test)]
    asked::note(sql);
    Ok(connection.prepare_cached(sql)?)
}

/// What was asked on this thread, for the test that looks at the plans.
#[cfg(test)]
pub(super) mod asked {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local!(static ASKED: RefCell<BTreeSet<String>> = RefCell::default());

    pub(super) fn note(sql: &str) {
        ASKED.with_borrow_mut(|asked| asked.insert(sql.to_owned()));
    }

    pub(in crate::sqlite) fn take() -> BTreeSet<String> {
        ASKED.take()
    }
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query(params)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(read(row)?);
    }
    Ok(out)
}

fn sessions(connection: &Connection, clauses: &str, params: impl Params) -> Result<Vec<Session>> {
    all(connection, &format!("{SESSION}{clauses}"), params, value::session)
}

pub(super) fn session(connection: &Connection, id: &SessionId) -> Result<Option<Session>> {
    Ok(sessions(connection, "WHERE s.id = ?1", [id.as_str()])?.pop())
}

pub(super) fn number(connection: &Connection, id: &SessionId) -> Result<Option<i64>> {
    let mut statement = prepare(connection, "SELECT n FROM sessions WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

fn known_number(connection: &Connection, id: &SessionId) -> Result<i64> {
    number(connection, id)?.ok_or_else(|| Error::NoSession(id.clone()).into())
}

pub(super) fn wake(connection: &Connection, id: &SessionId) -> Result<Awake> {
    let row = session(connection, id)?.ok_or_else(|| Error::NoSession(id.clone()))?;
    let from = row.base.saturating_sub(1);
    let entries = entries(connection, id, Span::After { seq: from, limit: usize::MAX })?;
    let n = known_number(connection, id)?;
    Ok(Awake { row, entries, inbox: unread(connection, n, 0)?, asks: asks_of(connection, n)? })
}

pub(super) fn inbox(connection: &Connection, id: &SessionId, after: u64) -> Result<Vec<(u64, Unread)>> {
    unread(connection, known_number(connection, id)?, after)
}

fn unread(connection: &Connection, session: i64, after: u64) -> Result<Vec<(u64, Unread)>> {
    let sql = "SELECT n, class, body FROM letters WHERE session = ?1 AND n > ?2 AND body IS NOT NULL ORDER BY n";
    all(connection, sql, params![session, int(after)], |row| {
        Ok((row.get::<_, i64>(0)? as u64, Unread::of(letter(row)?, text(row, 2)?.len())))
    })
}

pub(super) fn letters(connection: &Connection, id: &SessionId, ids: &[LetterId]) -> Result<Vec<Letter>> {
    let session = known_number(connection, id)?;
    let sql = "SELECT n, class, body FROM letters WHERE id = ?1 AND session = ?2 AND body IS NOT NULL";
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(all(connection, sql, params![id.as_str(), session], letter)?);
    }
    Ok(found)
}

fn letter(row: &Row<'_>) -> Result<Letter> {
    let letter: Letter = from_json(text(row, 2)?)?;
    // The text was written before the class of a person's letter was chosen; the column was written after.
    Ok(Letter { class: from_word(text(row, 1)?)?, ..letter })
}

/// Rows until a page is full: in bytes of one column, unless the first row alone has more.
struct Room {
    left: usize,
    used: bool,
}

impl Room {
    fn page() -> Self {
        Self { left: PAGE_BYTES, used: false }
    }

    fn endless() -> Self {
        Self { left: usize::MAX, used: false }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Reads rows while there is room. `body` is the column that counts.
    fn fill<T>(
        &mut self,
        connection: &Connection,
        sql: &str,
        params: impl Params,
        body: usize,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = prepare(connection, sql)?;
        let mut rows = statement.query(params)?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes = text(row, body)?.len();
            if self.used && bytes > self.left {
                self.left = 0;
                break;
            }
            (self.used, self.left) = (true, self.left.saturating_sub(bytes));
            out.push(read(row)?);
        }
        Ok(out)
    }
}

pub(super) fn find(connection: &Connection, what: &Find) -> Result<Vec<Session>> {
    let newest = format!("ORDER BY s.activity DESC, s.id DESC LIMIT {FOUND}");
    match what {
        Find::Key(key) => sessions(connection, "WHERE s.key = ?1", [key]),
        Find::Label { label, owner: Some(owner) } => sessions(
            connection,
            &format!("WHERE s.label = ?1 AND s.owner = ?2 AND s.archived = 0 {newest}"),
            [label, owner],
        ),
        Find::Label { label, owner: None } => {
            sessions(connection, &format!("WHERE s.label = ?1 AND s.archived = 0 {newest}"), [label])
        }
        Find::Named { root, name } => {
            let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
            let clauses =
                format!("WHERE s.tree = ?1 AND s.name = ?2 AND s.archived = 0 ORDER BY s.n DESC LIMIT {FOUND}");
            sessions(connection, &clauses, params![tree, name])
        }
        Find::Called { name } => called(connection, name),
        Find::Ending(end) => ending(connection, end),
        Find::Members { root, limit } => {
            let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
            let clauses =
                "WHERE s.tree = ?1 AND s.name IS NOT NULL AND s.archived = 0 ORDER BY s.name, s.n DESC LIMIT ?2";
            sessions(connection, clauses, params![tree, most(*limit)])
        }
        Find::NewestIn(cwd) => newest_in(connection, cwd),
        Find::Newest => sessions(
            connection,
            "WHERE s.archived = 0 AND s.parent IS NULL ORDER BY s.activity DESC, s.id DESC LIMIT 1",
            [],
        ),
    }
}

/// One range of an index: each tree's holders stand together, the newest last.
fn called(connection: &Connection, name: &str) -> Result<Vec<Session>> {
    let newest = "SELECT max(n) FROM sessions WHERE name = ?1 AND archived = 0 GROUP BY tree ORDER BY tree DESC";
    sessions(connection, &format!("WHERE s.n IN ({newest} LIMIT {FOUND}) ORDER BY s.n DESC"), [name])
}

/// The last characters are indexed; those that share them are few.
fn ending(connection: &Connection, end: &str) -> Result<Vec<Session>> {
    let Some(indexed) = end.len().checked_sub(MIN_ENDING).and_then(|at| end.get(at..)) else { return Ok(Vec::new()) };
    let clauses = format!(
        "WHERE substr(s.id, -4) = ?1 AND substr(s.id, -length(?2)) = ?2 AND s.archived = 0 ORDER BY s.n DESC LIMIT {FOUND}"
    );
    sessions(connection, &clauses, [indexed, end])
}

/// Of those that are there and those that went from there into a worktree. Two ranges of two indexes.
fn newest_in(connection: &Connection, cwd: &str) -> Result<Vec<Session>> {
    let newest = "AND s.archived = 0 AND s.parent IS NULL ORDER BY s.activity DESC, s.id DESC LIMIT 1";
    let mut found = sessions(connection, &format!("WHERE s.cwd = ?1 {newest}"), [cwd])?;
    let from = "WHERE json_extract(s.worktree, '$.originalCwd') = ?1 AND s.worktree IS NOT NULL";
    found.extend(sessions(connection, &format!("{from} {newest}"), [cwd])?);
    found.sort_by(|a, b| (b.activity, &b.id).cmp(&(a.activity, &a.id)));
    found.truncate(1);
    Ok(found)
}

/// The clauses of a page, with their values.
#[derive(Default)]
pub(super) struct Clauses {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Clauses {
    pub(super) fn and(&mut self, clause: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(clause);
        self.values.extend(values);
    }

    pub(super) fn and_text(&mut self, clause: &str, text: &str) {
        self.and(clause, [Value::Text(text.to_owned())]);
    }
}

pub(super) fn list(connection: &Connection, query: &Query) -> Result<Page> {
    let limit = query.limit.clamp(1, PAGE);
    let mut clauses = Clauses::default();
    if !scope(connection, &query.scope, &mut clauses)? {
        return Ok(Page::default());
    }
    filter(query, &mut clauses);
    if let Some(after) = &query.after {
        let key = [Value::Integer(after.activity), Value::Text(after.id.to_string())];
        clauses.and("(s.activity, s.id) < (?, ?)", key);
    }
    let Clauses { sql, mut values } = clauses;
    values.push(Value::Integer(limit as i64 + 1));
    let sql = format!("WHERE s.archived = 0{sql} ORDER BY s.activity DESC, s.id DESC LIMIT ?");
    let mut sessions = sessions(connection, &sql, params_from_iter(values))?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more).map(|last| PageKey { activity: last.activity, id: last.id.clone() });
    let children = sessions.iter().map(|session| child_keys(connection, &session.id)).collect::<Result<_>>()?;
    Ok(Page { sessions, next, children })
}

fn child_keys(connection: &Connection, parent: &SessionId) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM sessions WHERE parent = ?1 AND archived = 0 ORDER BY activity DESC, id DESC LIMIT 100",
    )?;
    let keys = statement.query_map([parent.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(keys)
}

/// False when nothing can be in it.
fn scope(connection: &Connection, scope: &Scope, clauses: &mut Clauses) -> Result<bool> {
    match scope {
        Scope::All => {}
        Scope::Owner(owner) => clauses.and_text("s.owner = ?", owner),
        Scope::Below(id) => {
            let Some(top) = session(connection, id)? else { return Ok(false) };
            if top.root == top.id {
                // All of a tree: in order of activity as it lies in its index.
                clauses.and("s.tree = ?", [Value::Integer(known_number(connection, id)?)]);
            } else {
                let [from, to] = below(&top.path);
                clauses.and("s.path >= ? AND s.path < ?", [Value::Text(from), Value::Text(to)]);
            }
        }
    }
    Ok(true)
}

fn filter(query: &Query, clauses: &mut Clauses) {
    if let Some(parent) = &query.parent {
        clauses.and_text("s.parent = ?", parent.as_str());
    }
    if let Some(label) = &query.label {
        clauses.and_text("s.label = ?", label);
    }
    if let Some(since) = query.active_since {
        clauses.and("s.activity >= ?", [Value::Integer(since)]);
    }
    if !query.kinds.is_empty() {
        let marks = vec!["?"; query.kinds.len()].join(", ");
        clauses.and(&format!("s.kind IN ({marks})"), query.kinds.iter().cloned().map(Value::Text));
    }
}

/// The range of paths from a session down. A path ends with `/`, and `0` is the character after it.
pub(super) fn below(path: &str) -> [String; 2] {
    [path.to_owned(), format!("{}0", path.strip_suffix('/').unwrap_or(path))]
}

pub(super) fn tree(connection: &Connection, root: &SessionId, limit: usize) -> Result<Vec<Session>> {
    let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
    sessions(connection, "WHERE s.tree = ?1 ORDER BY s.n LIMIT ?2", params![tree, most(limit)])
}

pub(super) fn busy_below(connection: &Connection, id: &SessionId, limit: usize) -> Result<Vec<SessionId>> {
    let Some(top) = session(connection, id)? else { return Ok(Vec::new()) };
    let Some(tree) = number(connection, &top.root)? else { return Ok(Vec::new()) };
    let [from, to] = below(&top.path);
    // The `+` keeps the planner off the index of paths: few are busy, many are below.
    let sql = format!(
        "SELECT s.id FROM sessions s WHERE s.tree = ?1 AND {BUSY} AND +s.path > ?2 AND +s.path < ?3 \
         ORDER BY s.depth, s.n LIMIT ?4"
    );
    all(connection, &sql, params![tree, from, to, most(limit)], |row| session_id(text(row, 0)?))
}

pub(super) fn is_quiet(connection: &Connection, id: &SessionId) -> Result<bool> {
    let own = session(connection, id)?.is_some_and(|row| row.status.is_busy());
    Ok(!own && busy_below(connection, id, 1)?.is_empty())
}

pub(super) fn inside(connection: &Connection, dir: &str, limit: usize) -> Result<Vec<Session>> {
    // Few are busy, wherever they are: all of them are looked at.
    let busy = format!(
        "WHERE s.n IN (SELECT s.n FROM sessions s INDEXED BY sessions_busy
             WHERE {BUSY} AND s.archived = 0 AND (s.cwd = ?1 OR (s.cwd >= ?2 AND s.cwd < ?3)) LIMIT ?4)"
    );
    let [from, to] = below(&format!("{dir}/"));
    let mut found = sessions(connection, &busy, params![dir, from, to, most(limit)])?;
    let entered =
        "WHERE json_extract(s.worktree, '$.path') = ?1 AND s.worktree IS NOT NULL AND s.archived = 0 LIMIT ?2";
    for session in sessions(connection, entered, params![dir, most(limit)])? {
        if found.len() < limit && found.iter().all(|known| known.id != session.id) {
            found.push(session);
        }
    }
    Ok(found)
}

pub(super) fn live_children(connection: &Connection, id: &SessionId) -> Result<u64> {
    let sql = format!("SELECT count(*) FROM sessions s WHERE s.parent = ?1 AND {NOT_ENDED} AND s.archived = 0");
    let count: i64 = prepare(connection, &sql)?.query_row([id.as_str()], |row| row.get(0))?;
    Ok(count as u64)
}

/// A stretch of one session's own entries.
struct Stretch {
    session: i64,
    from: i64,
    to: i64,
}

/// Where a session's log lies, oldest first: a fork's prefix is in its ancestors.
fn stretches(connection: &Connection, id: &SessionId) -> Result<Vec<Stretch>> {
    let mut statement = prepare(connection, "SELECT n, fork_of, fork_seq FROM sessions WHERE id = ?1")?;
    let mut out = Vec::new();
    let (mut at, mut to) = (Some(id.clone()), i64::MAX);
    // A fork is born after what it forks, so this ends.
    while let Some(id) = at {
        let mut rows = statement.query([id.as_str()])?;
        let Some(row) = rows.next()? else { return Err(Error::NoSession(id).into()) };
        let shared = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
        if shared < to {
            out.push(Stretch { session: row.get(0)?, from: shared + 1, to });
        }
        to = to.min(shared);
        at = row.get_ref(1)?.as_str_or_null().ok().flatten().map(session_id).transpose()?;
    }
    out.reverse();
    Ok(out)
}

pub(super) fn entries(connection: &Connection, id: &SessionId, span: Span) -> Result<Vec<Stored>> {
    let mut stretches = stretches(connection, id)?;
    let mut out = Vec::new();
    let (Span::After { limit, .. } | Span::Before { limit, .. }) = span;
    let mut room = if limit == usize::MAX { Room::endless() } else { Room::page() };
    match span {
        Span::After { seq, limit } => {
            let sql =
                "SELECT seq, at, body FROM entries WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq LIMIT ?4";
            for Stretch { session, from, to } in stretches {
                if room.is_full() {
                    break;
                }
                let from = from.max(int(seq).saturating_add(1));
                let params = params![session, from, to, most(limit - out.len())];
                out.extend(room.fill(connection, sql, params, 2, stored)?);
            }
        }
        Span::Before { seq, limit } => {
            let sql = "SELECT seq, at, body FROM entries WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq DESC LIMIT ?4";
            stretches.reverse();
            for Stretch { session, from, to } in stretches {
                if room.is_full() {
                    break;
                }
                let to = to.min(int(seq) - 1);
                let params = params![session, from, to, most(limit - out.len())];
                out.extend(room.fill(connection, sql, params, 2, stored)?);
            }
            out.reverse();
        }
    }
    Ok(out)
}

fn stored(row: &Row<'_>) -> Result<Stored> {
    Ok(Stored { seq: row.get::<_, i64>(0)? as u64, at: row.get(1)?, entry: from_json(text(row, 2)?)? })
}

pub(super) fn run(connection: &Connection, id: &RunId) -> Result<Option<Run>> {
    let sql = format!("{}WHERE r.id = (SELECT coalesce(a.alias_of, a.id) FROM runs a WHERE a.id = ?1)", value::RUN);
    Ok(all(connection, &sql, [id.as_str()], value::run)?.pop())
}

const ASK: &str = "SELECT body, reply FROM asks ";

fn ask_row(row: &Row<'_>) -> Result<Ask> {
    let mut ask: Ask = from_json(text(row, 0)?)?;
    ask.reply = row.get::<_, Option<String>>(1)?.as_deref().map(from_word).transpose()?;
    Ok(ask)
}

pub(super) fn asks(connection: &Connection, root: Option<&SessionId>) -> Result<Vec<Ask>> {
    let Some(root) = root else {
        // Few are open at a time: the whole partial index is small.
        return all(connection, &format!("{ASK}WHERE reply IS NULL ORDER BY created, id"), [], ask_row);
    };
    let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
    all(connection, &format!("{ASK}WHERE tree = ?1 AND reply IS NULL ORDER BY created, id"), [tree], ask_row)
}

fn asks_of(connection: &Connection, session: i64) -> Result<Vec<Ask>> {
    all(connection, &format!("{ASK}WHERE session = ?1 AND reply IS NULL ORDER BY created, id"), [session], ask_row)
}

pub(super) fn ask(connection: &Connection, id: &AskId) -> Result<Option<Ask>> {
    Ok(all(connection, &format!("{ASK}WHERE id = ?1"), [id.as_str()], ask_row)?.pop())
}

pub(super) fn unfinished(connection: &Connection, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>> {
    let sql = format!(
        "SELECT id FROM (
             SELECT s.id FROM sessions s INDEXED BY sessions_busy WHERE {BUSY} AND s.archived = 0
             UNION
             SELECT s.id FROM heads h CROSS JOIN sessions s ON s.n = h.n WHERE h.pending > 0 AND s.archived = 0
         ) WHERE id > ?1 ORDER BY id LIMIT ?2"
    );
    let after = after.map_or("", SessionId::as_str);
    all(connection, &sql, params![after, most(limit)], |row| session_id(text(row, 0)?))
}

pub(super) fn waits_for(connection: &Connection, from: &SessionId, to: &SessionId) -> Result<bool> {
    let (Some(from), Some(to)) = (number(connection, from)?, number(connection, to)?) else { return Ok(false) };
    // UNION, not UNION ALL: a session that was seen is not followed again, so circles elsewhere end.
    let sql = "WITH RECURSIVE reached (n) AS (
                   SELECT on_session FROM waits WHERE session = ?1
                   UNION
                   SELECT w.on_session FROM reached r JOIN waits w ON w.session = r.n
               )
               SELECT EXISTS (SELECT 1 FROM reached WHERE n = ?2)";
    Ok(prepare(connection, sql)?.query_row([from, to], |row| row.get(0))?)
}

pub(super) fn awaits_news(connection: &Connection, id: &SessionId) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE report_to = ?1 AND ended IS NULL)";
    Ok(prepare(connection, sql)?.query_row([id.as_str()], |row| row.get(0))?)
}

pub(super) fn owes_news(connection: &Connection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM runs r CROSS JOIN sessions s ON s.n = r.session
         WHERE r.report_to IS NOT NULL AND r.ended IS NULL AND r.alias_of IS NULL AND s.archived = 0)";
    Ok(prepare(connection, sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn kept_since(
    connection: &Connection,
    root: Option<&SessionId>,
    cursor: u64,
    limit: usize,
) -> Result<Vec<Kept>> {
    const KEPT: &str =
        "SELECT e.id, s.id, s.root, e.seq, e.at, e.body FROM entries e CROSS JOIN sessions s ON s.n = e.session ";
    let Some(root) = root else {
        let sql = format!("{KEPT}WHERE e.id > ?1 ORDER BY e.id LIMIT ?2");
        return Room::page().fill(connection, &sql, params![int(cursor), most(limit)], 5, kept);
    };
    let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
    let sql = format!("{KEPT}WHERE e.tree = ?1 AND e.id > ?2 ORDER BY e.id LIMIT ?3");
    Room::page().fill(connection, &sql, params![tree, int(cursor), most(limit)], 5, kept)
}

pub(super) fn kept_next(connection: &Connection, root: Option<&SessionId>, cursor: u64) -> Result<Option<Ahead>> {
    const AHEAD: &str =
        "SELECT e.id, s.id, octet_length(e.body) FROM entries e CROSS JOIN sessions s ON s.n = e.session ";
    let ahead = |row: &Row<'_>| {
        let bytes = row.get::<_, i64>(2)? as usize;
        Ok(Ahead { cursor: row.get::<_, i64>(0)? as u64, session: session_id(text(row, 1)?)?, bytes })
    };
    let Some(root) = root else {
        let sql = format!("{AHEAD}WHERE e.id > ?1 ORDER BY e.id LIMIT 1");
        return Ok(all(connection, &sql, [int(cursor)], ahead)?.pop());
    };
    let Some(tree) = number(connection, root)? else { return Ok(None) };
    let sql = format!("{AHEAD}WHERE e.tree = ?1 AND e.id > ?2 ORDER BY e.id LIMIT 1");
    Ok(all(connection, &sql, params![tree, int(cursor)], ahead)?.pop())
}

fn kept(row: &Row<'_>) -> Result<Kept> {
    Ok(Kept {
        cursor: row.get::<_, i64>(0)? as u64,
        session: session_id(text(row, 1)?)?,
        root: session_id(text(row, 2)?)?,
        seq: row.get::<_, i64>(3)? as u64,
        at: row.get(4)?,
        body: text(row, 5)?.into(),
    })
}

pub(super) fn cursor(connection: &Connection) -> Result<u64> {
    let cursor: Option<i64> = prepare(connection, "SELECT max(id) FROM entries")?.query_row([], |row| row.get(0))?;
    Ok(cursor.unwrap_or(0) as u64)
}

pub(super) fn outbox_addresses(connection: &Connection, limit: usize) -> Result<Vec<String>> {
    let sql = "SELECT address FROM outbox WHERE state IS NULL GROUP BY address ORDER BY min(n) LIMIT ?1";
    all(connection, sql, [most(limit)], |row| Ok(row.get(0)?))
}

const PARCEL: &str = "SELECT id, sender, address, posted, body, state, reason, settled FROM outbox ";

pub(super) fn outbox(connection: &Connection, address: &str, limit: usize) -> Result<Vec<Parcel>> {
    let sql = format!("{PARCEL}WHERE address = ?1 AND state IS NULL ORDER BY n LIMIT ?2");
    all(connection, &sql, params![address, most(limit)], parcel)
}

pub(super) fn outgoing(connection: &Connection, query: &OutboxQuery) -> Result<Vec<Parcel>> {
    let mut clauses = Clauses::default();
    if let Some(id) = &query.id {
        clauses.and_text("id = ?", id.as_str());
    }
    if let Some(sender) = &query.sender {
        clauses.and_text("sender = ?", sender.as_str());
    }
    match query.state {
        None => {}
        Some(MailState::Queued) => clauses.and("(+state IS NULL OR +state = 'queued')", []),
        Some(state) => clauses.and_text("+state = ?", &word(&state)?),
    }
    if let Some(MailKey { posted, id }) = &query.after {
        clauses.and("(posted, id) < (?, ?)", [Value::Integer(*posted), Value::Text(id.to_string())]);
    }
    let sql = format!("{PARCEL}WHERE 1{} ORDER BY posted DESC, id DESC LIMIT ?", clauses.sql);
    clauses.values.push(Value::Integer(most(query.limit)));
    all(connection, &sql, params_from_iter(clauses.values), parcel)
}

pub(super) fn settled_before(connection: &Connection, moment: Millis, limit: usize) -> Result<Vec<LetterId>> {
    let sql = "SELECT id FROM outbox WHERE settled < ?1 ORDER BY settled LIMIT ?2";
    all(connection, sql, params![moment, most(limit)], |row| from_word(text(row, 0)?))
}

fn parcel(row: &Row<'_>) -> Result<Parcel> {
    let state = row.get::<_, Option<String>>(5)?;
    Ok(Parcel {
        id: from_word(text(row, 0)?)?,
        sender: row.get::<_, Option<String>>(1)?.as_deref().map(session_id).transpose()?,
        address: row.get(2)?,
        posted: row.get(3)?,
        body: row.get(4)?,
        fate: match state {
            None => None,
            Some(state) => {
                let at = row.get::<_, Option<Millis>>(7)?.unwrap_or_default();
                Some(Fate { state: from_word(&state)?, reason: row.get(6)?, at })
            }
        },
    })
}

pub(super) fn cursor_before(connection: &Connection, letter: &LetterId) -> Result<u64> {
    let sql = "SELECT e.id FROM letters l JOIN entries e ON e.session = l.session AND e.seq = l.consumed_seq \
               WHERE l.id = ?1";
    let entry: Option<i64> = prepare(connection, sql)?.query_row([letter.as_str()], |row| row.get(0)).optional()?;
    entry.map_or_else(|| cursor(connection), |entry| Ok((entry as u64).saturating_sub(1)))
}

pub(super) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
