-- The newest entry that undid something or took that back, which says what of the log is set aside.
ALTER TABLE sessions ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
