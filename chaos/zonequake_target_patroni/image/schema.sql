-- What a run's load writes to. `psql` reads it once, on the first leader (start.py, post_init).
CREATE SEQUENCE places;
CREATE TABLE entries (
    key text PRIMARY KEY,
    value text,      -- JSON; NULL: the key is absent
    filler bytea,
    written bigint   -- the place of its last write
);
-- Values stand in the files as they are, so that one can be altered there.
ALTER TABLE entries ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE FUNCTION timeline() RETURNS bigint LANGUAGE sql AS
    $$ SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint $$;
-- No superuser: the connections that PostgreSQL reserves are left for Patroni and pg_rewind.
CREATE ROLE load LOGIN;
GRANT SELECT, INSERT, UPDATE ON entries TO load;
GRANT USAGE ON places TO load;
