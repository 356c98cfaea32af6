-- Mail that a person oversees, and the boards.

-- Who sent a letter: the id of a session, here or elsewhere. Letters of people and of the runtime have none.
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
CREATE INDEX held_waiting ON held (session, posted DESC, id DESC) WHERE state = 'held';
