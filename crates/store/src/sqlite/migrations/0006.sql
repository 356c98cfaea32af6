-- Who pays for a run: `purse` is the run it spends from. One that was given something for itself spends from its own, and
-- `above` is where that came from.
ALTER TABLE runs ADD COLUMN purse TEXT;
ALTER TABLE runs ADD COLUMN above TEXT;
ALTER TABLE runs ADD COLUMN allotted_cost REAL;
ALTER TABLE runs ADD COLUMN allotted_tokens INTEGER;
ALTER TABLE runs ADD COLUMN allotted_agents INTEGER;
-- A session was made for it.
ALTER TABLE runs ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_purse ON runs (purse) WHERE purse IS NOT NULL;
CREATE INDEX runs_above ON runs (above) WHERE above IS NOT NULL;
