-- Mail that a person oversees, and the boards.

-- Who sent a letter: the id of a session, or the address of one elsewhere. Letters of people and of the runtime have none.
ALTER TABLE letters ADD COLUMN sender TEXT;

CREATE INDEX letters_page ON letters (posted DESC, id DESC) WHERE sender IS NOT NULL AND class <> 'control';
CREATE INDEX letters_page_to ON letters (session, posted DESC, id DESC)
    WHERE sender IS NOT NULL AND class <> 'control';
CREATE INDEX letters_page_from ON letters (sender, posted DESC, id DESC)
    WHERE sender IS NOT NULL AND class <> 'control';

-- Letters kept back for a person. A decided one keeps its id, so that a sender who tries again changes nothing, and loses
-- its body.
CREATE TABLE held (
    id      TEXT NOT NULL PRIMARY KEY,
    session INTEGER NOT NULL,
    tree    INTEGER NOT NULL,
    sender  TEXT NOT NULL,
    posted  INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    state   TEXT NOT NULL,
    decided INTEGER,
    reason  TEXT,
    body    TEXT
) STRICT;

CREATE INDEX held_page ON held (posted DESC, id DESC);
CREATE INDEX held_page_of_session ON held (session, posted DESC, id DESC);
CREATE INDEX held_waiting ON held (posted DESC, id DESC) WHERE state = 'held';
CREATE INDEX held_waiting_for ON held (session) WHERE state = 'held';

-- Tasks that a tree shares. `owner` is a session's id or `person`.
CREATE TABLE board (
    tree        INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    title       TEXT NOT NULL,
    state       TEXT NOT NULL,
    owner       TEXT,
    version     INTEGER NOT NULL,
    blocked_by  TEXT NOT NULL,
    note        TEXT,
    created     INTEGER NOT NULL,
    updated     INTEGER NOT NULL,
    description TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX board_number ON board (tree, number);
CREATE INDEX board_pending ON board (tree, number) WHERE state = 'pending';
CREATE INDEX board_claimed ON board (owner) WHERE state = 'in_progress';
