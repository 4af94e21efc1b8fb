-- `billed` is returned in every state, so that a repetition is recognised while another request holds the claim.
CREATE OR REPLACE FUNCTION claim(p_account text, p_key text, p_fingerprint bytea, p_owner bigint, p_seconds double precision,
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
    ELSE
        SELECT c.fingerprint INTO first FROM claims c WHERE c.account = p_account AND c.key = p_key;
        state := CASE WHEN first = p_fingerprint OR NOT FOUND THEN 'same' ELSE 'other' END;
    END IF;
    SELECT r.record INTO billed FROM requests r WHERE r.account = p_account AND r.key = p_key AND r.at >= p_oldest;
END $$;
