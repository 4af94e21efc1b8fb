-- Runs of `POST /bulk`: a daemon leads each in place of a command. It lists the objects, follows the run, and writes its report.
-- The run and its chunks have the same id in `bulk_runs` and are removed once the report is written; the row stays for a day.

CREATE TABLE bulk_jobs (
    id text COLLATE "C" PRIMARY KEY,
    key_id text COLLATE "C" NOT NULL,
    -- The account of the key, for its permission to use the places.
    account text COLLATE "C" NOT NULL,
    -- The Idempotency-Key of the last request.
    name text COLLATE "C",
    state text COLLATE "C" NOT NULL CHECK (state IN ('queued', 'processing', 'done', 'error')),
    source text NOT NULL,
    destination text NOT NULL,
    report text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When the state last changed.
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- The claim of the daemon that leads it; the newest one alone may write.
    leader bigint,
    leader_until timestamptz,
    -- What the leader last counted and estimated.
    failed bigint NOT NULL DEFAULT 0,
    ends_at timestamptz,
    -- Of the chunks, when it ended.
    is_listed boolean NOT NULL DEFAULT false,
    objects bigint NOT NULL DEFAULT 0,
    finished bigint NOT NULL DEFAULT 0,
    -- The summary as JSON, or why it failed.
    summary text,
    error_code text,
    error_message text,
    UNIQUE (key_id, name)
);
CREATE INDEX bulk_jobs_by_key ON bulk_jobs (key_id, created_at);

-- What the listing of a run left out, for the daemon that leads its end.
ALTER TABLE bulk_runs ADD COLUMN skipped bigint NOT NULL DEFAULT 0;
ALTER TABLE bulk_runs ADD COLUMN ignored bigint NOT NULL DEFAULT 0;

-- Runs that have nothing to lead until they are resumed: paused, with all their objects queued, and not all of them finished.
CREATE VIEW waiting_bulk_runs AS SELECT id FROM bulk_runs r WHERE state = 'paused' AND is_listed
    AND EXISTS (SELECT 1 FROM bulk_chunks c WHERE c.run = r.id AND c.state <> 'done');
