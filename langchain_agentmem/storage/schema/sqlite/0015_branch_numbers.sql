-- The greatest number that a branch had which is gone: no other gets it, since a run of another process may know it still.
create table spent_branch (
    id integer primary key
);
insert into spent_branch (id) select coalesce(max(id), 0) from branch;

create trigger branch_spent after delete on branch
begin
    update spent_branch set id = max(id, old.id);
end;
