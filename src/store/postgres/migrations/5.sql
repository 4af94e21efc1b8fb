-- Images that daemons may bill while the database is away. They count as used as long as the row is there.
CREATE TABLE leases (
    id bigint PRIMARY KEY,
    daemon bigint,
    account text COLLATE "C" NOT NULL REFERENCES accounts,
    key_id text COLLATE "C" NOT NULL,
    month bigint NOT NULL,
    images bigint NOT NULL CHECK (images >= 0),
    lease_until timestamptz NOT NULL
);
CREATE INDEX leases_by_account ON leases (account, month);
