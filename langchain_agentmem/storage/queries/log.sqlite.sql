-- name: lock_contents
-- Does nothing: SQLite's transaction already holds the lock.
select null as id where :hashes is null;
