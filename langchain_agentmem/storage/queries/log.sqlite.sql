-- name: lock_contents
-- Nothing to do: SQLite's transaction holds the lock already.
select null as id where :hashes is null;
