-- Runs of `backdrop bulk --cluster`. A run is removed once its report is written.

CREATE TABLE bulk_runs (
    id text COLLATE "C" PRIMARY KEY,
    state text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'cancelled')),
    -- The command that may add chunks: the last one that began to list.
    lister bigint NOT NULL,
    is_listed boolean NOT NULL DEFAULT false,
    spec text NOT NULL,
    background bytea,
    mark bytea,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE bulk_chunks (
    run text COLLATE "C" NOT NULL REFERENCES bulk_runs ON DELETE CASCADE,
    number bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('queued', 'claimed', 'done')),
    objects bigint NOT NULL CHECK (objects > 0),
    -- Empty where the objects need no processing.
    tasks text NOT NULL,
    owner text,
    -- Claims so far; the newest one alone may write.
    attempt bigint NOT NULL DEFAULT 0,
    -- Claims that ended with their lease.
    lost bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    -- Rows in `report`.
    finished bigint NOT NULL DEFAULT 0,
    report bytea NOT NULL DEFAULT '',
    PRIMARY KEY (run, number)
);
CREATE INDEX bulk_chunks_open ON bulk_chunks (run, number) WHERE state <> 'done';
CREATE INDEX bulk_chunks_claimed ON bulk_chunks (run, lease_until) WHERE state = 'claimed';
