-- Pages of the facts that name something, or that the threads of a scope tell, by when they were learned.
drop index memory_object;
drop index memory_counts_object;
create index memory_object on memory (branch_id, object, kind, created_at, until) where object is not null;
create index memory_subject_learned on memory (branch_id, subject, kind, created_at) where subject is not null;
create index memory_counts_object on memory (scope_id, kind, object, created_at)
    where gone = 4611686018427387904 and subject is not null;
create index memory_counts_subject_learned on memory (scope_id, kind, subject, created_at)
    where gone = 4611686018427387904 and subject is not null;
create index memory_counts_learned on memory (scope_id, kind, created_at)
    where gone = 4611686018427387904 and subject is not null;
