-- One value per name: created_at, secret, horizon, ready.
CREATE TABLE IF NOT EXISTS samekey_meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Lists of significant fields, so that a record is compared under its own for ever.
CREATE TABLE IF NOT EXISTS samekey_profiles (
    id         TEXT PRIMARY KEY,
    definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The newest key time that was ever forgotten. Operations outside the configuration share the row ''.
CREATE TABLE IF NOT EXISTS samekey_forgotten_before (
    operation TEXT PRIMARY KEY,
    mark      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Times are Unix milliseconds. The response stands last, so that reading a record does not touch its pages.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    id               INTEGER PRIMARY KEY,
    actor_id         TEXT NOT NULL,
    operation        TEXT NOT NULL,
    idem_key         TEXT NOT NULL,
    configured       INTEGER NOT NULL,
    payload_hash     TEXT,
    state            TEXT NOT NULL
                     CHECK (state IN ('in_progress', 'completed', 'failed', 'released', 'uncertain', 'expired')),
    attempt          INTEGER NOT NULL,
    holder           BLOB NOT NULL CHECK (length(holder) = 16),
    took_over        INTEGER NOT NULL,
    revision         INTEGER NOT NULL,
    lease_until      INTEGER NOT NULL,
    deadline         INTEGER NOT NULL,
    settle_after     INTEGER,
    not_before       INTEGER,
    reason           TEXT,
    ended            TEXT,
    status_code      INTEGER,
    result_id        TEXT,
    created_at       INTEGER NOT NULL,
    finished_at      INTEGER,
    expires_at       INTEGER,
    request_id       TEXT,
    effects_open     INTEGER NOT NULL DEFAULT 0,
    effects_finished INTEGER NOT NULL DEFAULT 0,
    effects_not_applied INTEGER NOT NULL DEFAULT 0,
    looks            INTEGER NOT NULL DEFAULT 0,
    -- Of the recoverer where the record is uncertain, else of the sweeper.
    look_at          INTEGER,
    response_headers BLOB,
    response_body    BLOB
) STRICT;

-- The key comes first: keys that carry their time then go to one end of the index, whoever sends them.
CREATE UNIQUE INDEX IF NOT EXISTS idempotency_keys_scope ON idempotency_keys (idem_key, operation, actor_id);

-- For the quota, and for whoever looks for lapsed claims.
CREATE INDEX IF NOT EXISTS idempotency_keys_in_progress ON idempotency_keys (actor_id) WHERE state = 'in_progress';

-- For whoever starts under another configuration: which names have records that a client may still ask for.
CREATE INDEX IF NOT EXISTS idempotency_keys_operations ON idempotency_keys (operation)
    WHERE configured AND state <> 'expired';

-- For the sweeper: answers by the end of their retention, and what is left of commands by when they may be forgotten.
CREATE INDEX IF NOT EXISTS idempotency_keys_expiring ON idempotency_keys (expires_at)
    WHERE state IN ('completed', 'failed');
CREATE INDEX IF NOT EXISTS idempotency_keys_forgettable ON idempotency_keys (coalesce(look_at, finished_at))
    WHERE state IN ('expired', 'released');

-- For whoever settles what is uncertain: by when the next look at it is due.
CREATE INDEX IF NOT EXISTS idempotency_keys_uncertain
    ON idempotency_keys (max(coalesce(look_at, settle_after), settle_after))
    WHERE state = 'uncertain';

-- The effects journal: an entry is written before the external call that it stands for.
CREATE TABLE IF NOT EXISTS idempotency_effects (
    record       INTEGER NOT NULL,
    name         TEXT NOT NULL,
    provider_key TEXT NOT NULL,
    input_hash   BLOB,
    attempt      INTEGER NOT NULL,
    call         BLOB NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    ended        TEXT CHECK (ended IN ('done', 'not_applied', 'unknown')),
    result       BLOB,
    PRIMARY KEY (record, name)
) STRICT, WITHOUT ROWID;

-- What happened to a record beyond a claim and its answer: takeovers, lapses, settlements, and who made them.
CREATE TABLE IF NOT EXISTS idempotency_trail (
    record     INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT,
    by         TEXT NOT NULL,
    who        TEXT,
    why        TEXT,
    request_id TEXT,
    PRIMARY KEY (record, revision)
) STRICT, WITHOUT ROWID;
