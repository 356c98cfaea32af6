-- Messages to other gateways stay after those have them, with what became of them, until they are old. Without a state, one
-- waits still.
ALTER TABLE outbox ADD COLUMN state TEXT;
ALTER TABLE outbox ADD COLUMN reason TEXT;
ALTER TABLE outbox ADD COLUMN settled INTEGER;
ALTER TABLE outbox ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET bytes = octet_length(body);

DROP INDEX outbox_by_address;
CREATE INDEX outbox_waiting ON outbox (address, n, bytes) WHERE state IS NULL;
CREATE INDEX outbox_page ON outbox (posted DESC, id DESC);
CREATE INDEX outbox_page_from ON outbox (sender, posted DESC, id DESC) WHERE sender IS NOT NULL;
CREATE INDEX outbox_settled ON outbox (settled) WHERE settled IS NOT NULL;
