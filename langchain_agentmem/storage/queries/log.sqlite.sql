-- name: lock_contents
-- Nothing to do: SQLite's transaction already holds the lock.
select null as id where :hashes is null;
