-- Daemons keep nothing of the database in memory: a request is admitted and billed by a function here. Columns that repeat what a
-- record has are for these functions; the program writes both (and fills them for the rows of an older schema).

DROP VIEW orphaned_jobs;
DROP TABLE commits, daemons, calls, leases;
DELETE FROM meta WHERE name IN ('commits', 'last_turn');

ALTER TABLE accounts
    ADD COLUMN plan text COLLATE "C" NOT NULL DEFAULT 'free' CHECK (plan IN ('free', 'paid', 'plus')),
    -- When a job of the account was last started: accounts take turns.
    ADD COLUMN last_job_at timestamptz;

ALTER TABLE keys
    ADD COLUMN account text COLLATE "C" REFERENCES accounts,
    ADD COLUMN is_revoked boolean NOT NULL DEFAULT false,
    ADD COLUMN expires_at bigint,
    ADD COLUMN images_per_month bigint,
    -- A replaced token, and until when it is accepted.
    ADD COLUMN previous_hash bytea,
    ADD COLUMN previous_until bigint,
    -- To the minute.
    ADD COLUMN last_used_at bigint;
CREATE INDEX keys_by_account ON keys (account);
CREATE INDEX keys_by_previous_hash ON keys (previous_hash) WHERE previous_hash IS NOT NULL;
CREATE INDEX key_days_by_key ON key_days (key_id, day);

-- A running job is its daemon's until the lease ends; the newest claim alone may write. `reserved` images of `month` count
-- against quotas until the job ends.
ALTER TABLE jobs
    DROP COLUMN owner,
    ADD COLUMN attempt bigint NOT NULL DEFAULT 0,
    ADD COLUMN lease_until timestamptz,
    ADD COLUMN progress smallint NOT NULL DEFAULT 0;

-- Requests under an `Idempotency-Key` that run: other daemons wait for their end. That one is billed once is up to the row in
-- `requests`; so a crash of the server may empty this table, and a write to it waits for no disk.
CREATE UNLOGGED TABLE claims (
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    owner bigint NOT NULL,
    ends_at timestamptz NOT NULL,
    PRIMARY KEY (account, key)
);

-- Calls of a key in the last minute. Emptied by a crash of the server, as claims are.
CREATE UNLOGGED TABLE rates (
    key_id text COLLATE "C" NOT NULL,
    is_service boolean NOT NULL,
    -- The second of the last element of `counts`, which has a call count for each of 61 seconds: a call leaves after 60 to 61 s.
    second bigint NOT NULL,
    counts integer[] NOT NULL,
    PRIMARY KEY (key_id, is_service)
) WITH (fillfactor = 50);

-- Counts `p_calls` of a key if they are within the limit, or in any case. `used` are those of the last minute, `reset_seconds`
-- the time until one more becomes possible.
CREATE FUNCTION count_calls(p_key_id text, p_is_service boolean, p_limit bigint, p_calls integer, p_in_any_case boolean,
    OUT is_allowed boolean, OUT used bigint, OUT reset_seconds bigint)
LANGUAGE plpgsql AS $$
DECLARE
    now_second bigint := floor(extract(epoch FROM clock_timestamp()));
    rate rates%ROWTYPE;
    elapsed bigint;
    passed bigint := 0;
BEGIN
    -- The update of nothing locks the row, which the clean-up may delete otherwise.
    INSERT INTO rates AS r VALUES (p_key_id, p_is_service, now_second, array_fill(0, ARRAY[61]))
        ON CONFLICT (key_id, is_service) DO UPDATE SET second = r.second RETURNING r.* INTO rate;
    elapsed := now_second - rate.second;
    IF elapsed >= 61 THEN
        rate.counts := array_fill(0, ARRAY[61]);
    ELSIF elapsed > 0 THEN
        rate.counts := rate.counts[elapsed + 1:61] || array_fill(0, ARRAY[elapsed::integer]);
    END IF;
    SELECT sum(c) INTO used FROM unnest(rate.counts) c;
    is_allowed := used + p_calls <= p_limit;
    IF p_calls > 0 AND (is_allowed OR p_in_any_case) THEN
        rate.counts[61] := rate.counts[61] + p_calls;
        used := used + p_calls;
        UPDATE rates r SET second = greatest(now_second, rate.second), counts = rate.counts
            WHERE r.key_id = p_key_id AND r.is_service = p_is_service;
    END IF;
    reset_seconds := 0;
    FOR i IN 1..61 LOOP
        passed := passed + rate.counts[i];
        IF passed > greatest(0, used - p_limit) THEN
            reset_seconds := i;
            EXIT;
        END IF;
    END LOOP;
END $$;

-- Images of a month that are billed, and that unfinished jobs reserve: of an account, and of one of its keys.
CREATE FUNCTION images_used(p_account text, p_month bigint, OUT images bigint)
LANGUAGE sql STABLE AS $$
    SELECT (coalesce((SELECT u.images FROM usage u WHERE u.month = p_month AND u.account = p_account), 0)
        + coalesce((SELECT sum(j.reserved) FROM jobs j WHERE j.account = p_account AND j.month = p_month
            AND j.state IN ('queued', 'processing') AND j.reserved > 0), 0))::bigint
$$;

CREATE FUNCTION key_images_used(p_account text, p_key_id text, p_month bigint, p_first_day bigint, p_last_day bigint,
    OUT images bigint)
LANGUAGE sql STABLE AS $$
    SELECT (coalesce((SELECT sum(d.images) FROM key_days d WHERE d.key_id = p_key_id
            AND d.day BETWEEN p_first_day AND p_last_day), 0)
        + coalesce((SELECT sum(j.reserved) FROM jobs j WHERE j.account = p_account AND j.month = p_month
            AND j.key_id = p_key_id AND j.state IN ('queued', 'processing') AND j.reserved > 0), 0))::bigint
$$;

-- Admits a caller by the hash of a token, or as an account without a key, and counts the call. No row: no active key has the
-- token. A row without an account: the key has expired.
CREATE FUNCTION admit(p_hash bytea, p_account text, p_is_service boolean, p_limits bigint[], p_now bigint, p_month bigint,
    p_first_day bigint, p_last_day bigint)
RETURNS TABLE (account_record bytea, key_record bytea, is_allowed boolean, calls_used bigint, reset_seconds bigint,
    plan_images bigint, key_images bigint)
LANGUAGE plpgsql AS $$
DECLARE
    caller keys%ROWTYPE;
    payer accounts%ROWTYPE;
BEGIN
    IF p_hash IS NULL THEN
        SELECT * INTO payer FROM accounts a WHERE a.name = p_account;
    ELSE
        SELECT * INTO caller FROM keys k WHERE k.hash = p_hash AND NOT k.is_revoked;
        IF NOT FOUND THEN
            SELECT * INTO caller FROM keys k
                WHERE k.previous_hash = p_hash AND k.previous_until > p_now AND NOT k.is_revoked;
        END IF;
        IF NOT FOUND THEN RETURN; END IF;
        key_record := caller.record;
        IF caller.expires_at <= p_now THEN
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT * INTO payer FROM accounts a WHERE a.name = caller.account;
    END IF;
    IF NOT FOUND THEN RETURN; END IF;
    account_record := payer.record;
    SELECT c.is_allowed, c.used, c.reset_seconds INTO admit.is_allowed, calls_used, admit.reset_seconds
        FROM count_calls(coalesce(caller.id, 'without-key-' || payer.name), p_is_service,
            p_limits[array_position(ARRAY['free', 'paid', 'plus'], payer.plan)], 1, false) c;
    plan_images := images_used(payer.name, p_month);
    IF caller.images_per_month IS NOT NULL THEN
        key_images := key_images_used(payer.name, caller.id, p_month, p_first_day, p_last_day);
    END IF;
    IF caller.last_used_at IS NULL OR caller.last_used_at < p_now - 60 THEN
        -- A time of use that a crash loses delays no request.
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE keys k SET last_used_at = p_now WHERE k.id = caller.id;
    END IF;
    RETURN NEXT;
END $$;

-- Claims an Idempotency-Key for at most so many seconds: 'taken', with the record of what was billed under it before; 'same' or
-- 'other' while a request with this or another fingerprint has it.
CREATE FUNCTION claim(p_account text, p_key text, p_fingerprint bytea, p_owner bigint, p_seconds double precision,
    p_oldest bigint, OUT state text, OUT billed bytea)
LANGUAGE plpgsql AS $$
DECLARE
    first bytea;
BEGIN
    INSERT INTO claims AS c VALUES (p_account, p_key, p_fingerprint, p_owner, clock_timestamp() + make_interval(secs => p_seconds))
        ON CONFLICT (account, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, owner = excluded.owner, ends_at = excluded.ends_at
        WHERE c.ends_at < clock_timestamp();
    IF FOUND THEN
        state := 'taken';
        SELECT r.record INTO billed FROM requests r WHERE r.account = p_account AND r.key = p_key AND r.at >= p_oldest;
    ELSE
        SELECT c.fingerprint INTO first FROM claims c WHERE c.account = p_account AND c.key = p_key;
        state := CASE WHEN first = p_fingerprint OR NOT FOUND THEN 'same' ELSE 'other' END;
    END IF;
END $$;

-- Refuses images beyond the quota of the account's plan ('plan') or of the key ('key'). The account's row is locked until the end of
-- the transaction, so that bills and new jobs of an account come one after the other. 'account': there is none.
CREATE FUNCTION check_quota(p_account text, p_key_id text, p_month bigint, p_first_day bigint, p_last_day bigint,
    p_images bigint, p_free_images bigint, OUT refusal text)
LANGUAGE plpgsql AS $$
DECLARE
    account_plan text;
    key_quota bigint;
BEGIN
    SELECT a.plan INTO account_plan FROM accounts a WHERE a.name = p_account FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        refusal := 'account';
    ELSIF p_images > 0 AND account_plan = 'free' AND images_used(p_account, p_month) > p_free_images - p_images THEN
        refusal := 'plan';
    ELSIF p_images > 0 AND p_key_id IS NOT NULL THEN
        SELECT k.images_per_month INTO key_quota FROM keys k WHERE k.id = p_key_id;
        IF key_quota IS NOT NULL
            AND key_images_used(p_account, p_key_id, p_month, p_first_day, p_last_day) > key_quota - p_images THEN
            refusal := 'key';
        END IF;
    END IF;
END $$;

-- Adds to the month of an account and to the day of a key. Sums stop at the largest number.
CREATE FUNCTION add_usage(p_account text, p_month bigint, p_key_id text, p_day bigint, p_images bigint, p_milliseconds bigint,
    p_microdollars bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT bigint := 9223372036854775807;
BEGIN
    INSERT INTO usage AS u VALUES (p_account, p_month, p_images, p_microdollars)
        ON CONFLICT (month, account) DO UPDATE SET images = least(u.images, most - p_images) + p_images,
            microdollars = least(u.microdollars, most - p_microdollars) + p_microdollars;
    IF p_key_id IS NOT NULL AND (p_images > 0 OR p_microdollars > 0) THEN
        INSERT INTO key_days AS d VALUES (p_account, p_day, p_key_id, p_images, p_milliseconds, p_microdollars)
            ON CONFLICT (account, day, key_id) DO UPDATE SET images = least(d.images, most - p_images) + p_images,
                milliseconds = least(d.milliseconds, most - p_milliseconds) + p_milliseconds,
                microdollars = least(d.microdollars, most - p_microdollars) + p_microdollars;
    END IF;
END $$;

-- Bills a request: images within the quotas, their price, and with an Idempotency-Key its record, which replaces the one that the
-- claim found (`p_earlier`). Where another bill has written a later one ('request'), `billed` is that. A refused bill writes nothing.
CREATE FUNCTION bill(p_account text, p_month bigint, p_first_day bigint, p_last_day bigint, p_key_id text, p_day bigint,
    p_images bigint, p_milliseconds bigint, p_microdollars bigint, p_free_images bigint,
    p_key text, p_at bigint, p_record bytea, p_earlier bytea, p_oldest bigint, p_owner bigint,
    OUT refusal text, OUT billed bytea)
LANGUAGE plpgsql AS $$
BEGIN
    -- Locks the account, so that what is read below is not changed by another bill.
    refusal := check_quota(p_account, p_key_id, p_month, p_first_day, p_last_day, p_images, p_free_images);
    IF refusal IS DISTINCT FROM 'account' AND p_key IS NOT NULL THEN
        -- First: a request that was billed already is a repetition, whatever is left.
        SELECT r.record INTO billed FROM requests r WHERE r.account = p_account AND r.key = p_key AND r.at >= p_oldest;
        IF billed IS DISTINCT FROM p_earlier AND billed IS NOT NULL THEN
            refusal := 'request';
            RETURN;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN RETURN; END IF;
    PERFORM add_usage(p_account, p_month, p_key_id, p_day, p_images, p_milliseconds, p_microdollars);
    IF p_key IS NOT NULL THEN
        INSERT INTO requests AS r VALUES (p_account, p_key, p_at, p_record)
            ON CONFLICT (account, key) DO UPDATE SET at = p_at, record = p_record;
        DELETE FROM claims c WHERE c.account = p_account AND c.key = p_key AND c.owner = p_owner;
    END IF;
END $$;
