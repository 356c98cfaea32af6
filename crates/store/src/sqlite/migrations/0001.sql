-- The first schema. `n` is a session's small number inside this file: rows that grow fast refer to it instead of to the
-- long id. `tree` is the number of the root session; every row carries it.

-- What changes a few times per run at most.
CREATE TABLE sessions (
    n        INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    key      TEXT NOT NULL UNIQUE,
    owner    TEXT NOT NULL,
    agent    TEXT NOT NULL,
    model    TEXT,
    parent   TEXT,
    root     TEXT NOT NULL,
    tree     INTEGER NOT NULL,
    depth    INTEGER NOT NULL,
    path     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    driver   TEXT NOT NULL,
    mode     TEXT NOT NULL,
    title    TEXT,
    label    TEXT,
    cwd      TEXT NOT NULL,
    policy   TEXT NOT NULL,
    fork_of  TEXT,
    fork_seq INTEGER,
    archived INTEGER NOT NULL,
    cleanup  INTEGER NOT NULL,
    status   TEXT NOT NULL,
    run      TEXT,
    created  INTEGER NOT NULL,
    activity INTEGER NOT NULL,
    started  INTEGER,
    ended    INTEGER
) STRICT;

CREATE INDEX sessions_page ON sessions (activity DESC, id DESC) WHERE archived = 0;
CREATE INDEX sessions_page_of_owner ON sessions (owner, activity DESC, id DESC) WHERE archived = 0;
CREATE INDEX sessions_page_of_tree ON sessions (tree, activity DESC, id DESC) WHERE archived = 0;
CREATE INDEX sessions_page_of_parent ON sessions (parent, activity DESC, id DESC)
    WHERE archived = 0 AND parent IS NOT NULL;
CREATE INDEX sessions_born ON sessions (tree, created) WHERE parent IS NOT NULL;
CREATE INDEX sessions_roots ON sessions (activity DESC, id DESC) WHERE archived = 0 AND parent IS NULL;
CREATE INDEX sessions_roots_in ON sessions (cwd, activity DESC, id DESC) WHERE archived = 0 AND parent IS NULL;
CREATE INDEX sessions_tree ON sessions (tree);
CREATE INDEX sessions_path ON sessions (path);
CREATE UNIQUE INDEX sessions_label ON sessions (label, owner) WHERE label IS NOT NULL;
CREATE INDEX sessions_busy ON sessions (tree, id)
    WHERE status IN ('queued', 'running', 'waiting', 'asking', 'retrying');
CREATE INDEX sessions_live_below ON sessions (parent)
    WHERE parent IS NOT NULL AND status NOT IN ('done', 'failed', 'killed', 'timeout', 'interrupted');

-- What changes with every commit, in small rows of their own: sixty of them share a page, and nothing that a plain append
-- changes is in an index.
CREATE TABLE heads (
    n              INTEGER PRIMARY KEY,
    seq            INTEGER NOT NULL,
    base           INTEGER NOT NULL,
    pending        INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    input          INTEGER NOT NULL,
    output         INTEGER NOT NULL,
    cache_read     INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    cost           REAL NOT NULL,
    context_tokens INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    attempt_seq    INTEGER NOT NULL
) STRICT;

CREATE INDEX heads_unread ON heads (n) WHERE pending > 0;

-- The logs. `id` is the cursor: one writer, so it grows in the order of commits.
CREATE TABLE entries (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    tree    INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_seq ON entries (session, seq);
CREATE INDEX entries_tree ON entries (tree, id);

-- The inboxes. A consumed letter keeps its id, for ever refusing a second of the same, and loses its body.
CREATE TABLE letters (
    n            INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    session      INTEGER NOT NULL,
    tree         INTEGER NOT NULL,
    class        TEXT NOT NULL,
    posted       INTEGER NOT NULL,
    consumed     INTEGER,
    consumed_seq INTEGER,
    body         TEXT
) STRICT;

CREATE INDEX letters_unread ON letters (session, n) WHERE body IS NOT NULL;

CREATE TABLE runs (
    id          TEXT NOT NULL PRIMARY KEY,
    session     INTEGER NOT NULL,
    tree        INTEGER NOT NULL,
    report      TEXT,
    created     INTEGER NOT NULL,
    started     INTEGER,
    ended       INTEGER,
    outcome     TEXT,
    code        TEXT,
    message     TEXT,
    hint        TEXT,
    answer      INTEGER,
    input       INTEGER NOT NULL DEFAULT 0,
    output      INTEGER NOT NULL DEFAULT 0,
    cache_read  INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    cost        REAL NOT NULL DEFAULT 0,
    alias_of    TEXT,
    report_to   TEXT
) STRICT;

-- Who will be told of an end.
CREATE INDEX runs_awaited ON runs (report_to) WHERE report_to IS NOT NULL AND ended IS NULL;

-- Questions to people. A withdrawn one is deleted, an answered one stays.
CREATE TABLE asks (
    id      TEXT NOT NULL PRIMARY KEY,
    session INTEGER NOT NULL,
    tree    INTEGER NOT NULL,
    created INTEGER NOT NULL,
    reply   TEXT,
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX asks_open ON asks (tree, created, id) WHERE reply IS NULL;
CREATE INDEX asks_open_of_session ON asks (session, created, id) WHERE reply IS NULL;

-- Who waits for whom.
CREATE TABLE waits (
    call       TEXT NOT NULL PRIMARY KEY,
    session    INTEGER NOT NULL,
    on_session INTEGER NOT NULL,
    tree       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX waits_of_session ON waits (session, on_session);

-- Calls that count once, by their caller's idempotency key, and what they were answered.
CREATE TABLE calls (
    key    TEXT NOT NULL PRIMARY KEY,
    answer TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
