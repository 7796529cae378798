-- What "main" of a namespace showed is kept for the checkpoints of its threads.

-- The namespace, where it had a branch "main" when the checkpoint was put.
alter table checkpoint add column namespace_id integer;
update checkpoint set namespace_id = (
    select b.namespace_id from checkpoint_line l
    join thread t on t.id = l.thread_id
    join branch b on b.namespace_id = t.namespace_id and b.kind = 'layers' and b.name = 'main'
    where l.id = checkpoint.line_id
);
create index checkpoint_seen on checkpoint (namespace_id, coalesce(seen, created_at)) where namespace_id is not null;
