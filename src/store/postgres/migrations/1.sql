-- Records are the versioned ones of `store/records`, as in redb; the other columns are keys and indexes.
-- COLLATE "C": names and ids are compared by their bytes, as the pages of the API are ordered.

CREATE TABLE meta (
    name text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
);

CREATE TABLE secret (
    is_single boolean PRIMARY KEY DEFAULT true CHECK (is_single),
    bytes bytea NOT NULL
);

CREATE TABLE accounts (
    name text COLLATE "C" PRIMARY KEY,
    record bytea NOT NULL
);

CREATE TABLE keys (
    id text COLLATE "C" PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    record bytea NOT NULL
);

CREATE TABLE presets (
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (account, id),
    UNIQUE (account, name)
);

CREATE TABLE usage (
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    month bigint NOT NULL,
    images bigint NOT NULL CHECK (images >= 0),
    microdollars bigint NOT NULL CHECK (microdollars >= 0),
    PRIMARY KEY (month, account)
);

CREATE TABLE key_days (
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    day bigint NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    images bigint NOT NULL CHECK (images >= 0),
    milliseconds bigint NOT NULL CHECK (milliseconds >= 0),
    microdollars bigint NOT NULL CHECK (microdollars >= 0),
    PRIMARY KEY (account, day, key_id)
);
CREATE INDEX key_days_by_day ON key_days (day);

CREATE TABLE requests (
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    key text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE INDEX requests_by_time ON requests (at, account, key);

CREATE TABLE jobs (
    id text COLLATE "C" PRIMARY KEY,
    key_id text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    name text COLLATE "C",
    state text COLLATE "C" NOT NULL CHECK (state IN ('queued', 'processing', 'done', 'error')),
    place bigint NOT NULL,
    due_at bigint,
    webhook_at bigint,
    record bytea NOT NULL,
    UNIQUE (key_id, name)
);
CREATE INDEX jobs_unfinished ON jobs (place, id) WHERE state IN ('queued', 'processing');
CREATE INDEX jobs_by_key ON jobs (key_id, place, id);
CREATE INDEX jobs_due ON jobs (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_webhooks ON jobs (webhook_at, id) WHERE webhook_at IS NOT NULL;
