-- Several daemons on one database.

-- What each commit wrote, for the copies in memory of the other processes. Numbers have no gaps; old rows are dropped.
CREATE TABLE commits (
    number bigint PRIMARY KEY,
    -- The process that committed.
    process bigint NOT NULL,
    -- Tells this commit from one of the same number that a failed-over server lost.
    token bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    rows text NOT NULL
);
CREATE INDEX commits_by_time ON commits (at);

-- The counter of commits: its row is the lock of all who commit.
INSERT INTO meta VALUES ('commits', 0) ON CONFLICT DO NOTHING;

-- The daemons by the identity of their data directory.
CREATE TABLE daemons (
    id bigint PRIMARY KEY,
    lease_until timestamptz NOT NULL
);

-- The daemon that runs a job, sends its webhook and deletes it; `reserved` images of `month` count against quotas until it ends.
ALTER TABLE jobs ADD COLUMN owner bigint;
ALTER TABLE jobs ADD COLUMN month bigint NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN reserved bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0);
CREATE INDEX jobs_by_owner ON jobs (owner);
CREATE INDEX jobs_reserved ON jobs (account, month) WHERE state IN ('queued', 'processing') AND reserved > 0;

-- Jobs whose daemon has not renewed its lease.
CREATE VIEW orphaned_jobs AS SELECT id, owner FROM jobs j WHERE owner IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM daemons d WHERE d.id = j.owner AND d.lease_until >= now());

-- Calls by key that each process counted, for the rate limits of the others. Lost with a crash of the server: they are of the last minute.
CREATE UNLOGGED TABLE calls (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    process bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    keys text[] NOT NULL,
    counts integer[] NOT NULL
);
