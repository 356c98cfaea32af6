//! The thorough look at a database: whether the file holds together, and whether its rows tell one story.

use super::fault::Result;
use rusqlite::Connection;

/// Lines past this say nothing new.
const MOST: usize = 100;

/// What must never be true, as a query that names each offender in one line of text.
const RULES: &[&str] = &[
    // A log has no gaps: it counts up from where its prefix ends to what the session says.
    "SELECT 'session `' || s.id || '`: has ' || count(e.seq) || ' entries from ' || coalesce(min(e.seq), 0) || ' to '
            || coalesce(max(e.seq), 0) || ', expected ' || (coalesce(s.fork_seq, 0) + 1) || ' to ' || h.seq
     FROM sessions s JOIN heads h ON h.n = s.n LEFT JOIN entries e ON e.session = s.n
     GROUP BY s.n
     HAVING count(e.seq) <> h.seq - coalesce(s.fork_seq, 0)
         OR coalesce(min(e.seq), coalesce(s.fork_seq, 0) + 1) <> coalesce(s.fork_seq, 0) + 1
         OR coalesce(max(e.seq), coalesce(s.fork_seq, 0)) <> h.seq",
    "SELECT 'session `' || s.id || '`: says ' || h.pending || ' unread letters, has '
            || (SELECT count(*) FROM letters l WHERE l.session = s.n AND l.body IS NOT NULL)
     FROM sessions s JOIN heads h ON h.n = s.n
     WHERE h.pending <> (SELECT count(*) FROM letters l WHERE l.session = s.n AND l.body IS NOT NULL)",
    "SELECT 'session `' || s.id || '`: has no head' FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM heads h WHERE h.n = s.n)",
    // What was taken out of an inbox is in the log, but for control letters.
    "SELECT 'letter `' || l.id || '`: was consumed, but is not in the log of `' || s.id || '`'
     FROM letters l JOIN sessions s ON s.n = l.session
     WHERE l.body IS NULL AND l.class <> 'control' AND NOT EXISTS (
         SELECT 1 FROM entries e
         WHERE e.session = l.session AND e.seq = l.consumed_seq AND json_extract(e.body, '$.letter') = l.id)",
    "SELECT 'run `' || r.id || '`: is open, but session `' || s.id || '` is ' || s.status
     FROM runs r JOIN sessions s ON s.n = r.session
     WHERE r.ended IS NULL AND r.alias_of IS NULL
       AND s.status IN ('done', 'failed', 'killed', 'timeout', 'interrupted')",
    "SELECT 'run `' || r.id || '`: is an alias of `' || r.alias_of || '`, which is not a run of its own'
     FROM runs r LEFT JOIN runs t ON t.id = r.alias_of
     WHERE r.alias_of IS NOT NULL AND (t.id IS NULL OR t.alias_of IS NOT NULL)",
    "SELECT 'session `' || s.id || '`: its root `' || s.root || '` is not number ' || s.tree
     FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM sessions r WHERE r.n = s.tree AND r.id = s.root)",
    // A claim is a lease: it ends with its holder.
    "SELECT 'task ' || b.number || ' of tree ' || b.tree || ': is in progress, but its owner ' || coalesce(b.owner, '(nobody)')
            || ' is not there or has ended'
     FROM board b LEFT JOIN sessions s ON s.id = b.owner
     WHERE b.state = 'in_progress' AND b.owner IS NOT 'person' AND (s.n IS NULL OR s.tree <> b.tree OR s.archived = 1
         OR s.status IN ('done', 'failed', 'killed', 'timeout', 'interrupted'))",
    "SELECT 'board of tree ' || tree || ': has ' || count(*) || ' tasks, the last is number ' || max(number)
     FROM board GROUP BY tree HAVING count(*) <> max(number) OR min(number) <> 1",
    "SELECT 'held message `' || h.id || '`: was accepted, but was never posted'
     FROM held h WHERE h.state = 'accepted' AND NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = h.id)",
    "SELECT 'entry ' || e.id || ': is not in the tree of its session'
     FROM entries e LEFT JOIN sessions s ON s.n = e.session WHERE s.n IS NULL OR s.tree <> e.tree",
];

pub(super) fn check(connection: &Connection) -> Result<Vec<String>> {
    let mut found = lines(connection, "PRAGMA integrity_check(100)")?;
    found.retain(|line| line != "ok");
    if !found.is_empty() {
        // Rows of a file that does not hold together say nothing.
        return Ok(found);
    }
    for rule in RULES {
        found.extend(lines(connection, &format!("{rule} LIMIT {MOST}"))?);
    }
    Ok(found)
}

fn lines(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let lines = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(lines)
}
