-- Names of agents within a tree, and whom a person stopped.
ALTER TABLE sessions ADD COLUMN name TEXT;
ALTER TABLE sessions ADD COLUMN stopped INTEGER NOT NULL DEFAULT 0;

CREATE INDEX sessions_name ON sessions (tree, name, n DESC) WHERE name IS NOT NULL;
