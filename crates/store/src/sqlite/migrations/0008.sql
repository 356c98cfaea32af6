-- The worktree a session entered, as JSON.
ALTER TABLE sessions ADD COLUMN worktree TEXT;

-- Who entered a directory, and who came from one. Few sessions are in a worktree.
CREATE INDEX sessions_in_worktree ON sessions (json_extract(worktree, '$.path'))
    WHERE worktree IS NOT NULL AND archived = 0;
CREATE INDEX sessions_roots_from ON sessions (json_extract(worktree, '$.originalCwd'), activity DESC, id DESC)
    WHERE worktree IS NOT NULL AND archived = 0 AND parent IS NULL;
