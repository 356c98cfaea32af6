-- Mail to sessions of other gateways, until they have it.
CREATE TABLE outbox (
    n       INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    sender  TEXT,
    address TEXT NOT NULL,
    posted  INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;
