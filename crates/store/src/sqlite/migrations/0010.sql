-- Mail leaves address by address, so that one that does not answer holds up no other.
CREATE INDEX outbox_by_address ON outbox (address, n);
