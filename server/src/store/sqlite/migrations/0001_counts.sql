-- How many records stand in each state, kept by every write that changes one, so that nobody has to count them.
-- Operations outside the configuration share the name ''.
CREATE TABLE samekey_counts (
    operation TEXT NOT NULL,
    state     TEXT NOT NULL,
    records   INTEGER NOT NULL,
    PRIMARY KEY (operation, state)
) STRICT, WITHOUT ROWID;

-- For whoever asks since when the oldest outcome of an operation is uncertain: one step each.
CREATE INDEX idempotency_keys_uncertain_of ON idempotency_keys
    ((CASE WHEN configured THEN operation ELSE '' END), settle_after) WHERE state = 'uncertain';
