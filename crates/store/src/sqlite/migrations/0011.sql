-- Sessions by the name alone, for a caller who means no tree: the newest holder of each tree is a range.
CREATE INDEX sessions_called ON sessions (name, tree, n) WHERE name IS NOT NULL AND archived = 0;

-- Sessions by the end of their id: ids of one minute share their beginning.
CREATE INDEX sessions_ending ON sessions (substr(id, -4)) WHERE archived = 0;
