-- Groups are kept while a task's result is kept that names them, wherever they were sealed since.

-- The groups of `finished_task`, to be looked up.
create table finished_group (
    group_id integer not null,
    thread_id integer not null,
    task text not null,
    primary key (group_id, thread_id, task),
    foreign key (thread_id, task) references finished_task (thread_id, task) on delete cascade
) without rowid;
create index finished_group_task on finished_group (thread_id, task);

insert into finished_group (group_id, thread_id, task)
select distinct g.value, f.thread_id, f.task
from finished_task f, json_each(case when json_valid(f.groups) then f.groups else '[]' end) g
where g.type = 'integer';
