-- Groups are kept while a task's result is kept that names them, wherever they were sealed since.

-- The groups of `finished_task`, to be looked up.
create table finished_group (
    group_id bigint not null,
    thread_id bigint not null,
    task text collate "C" not null,
    primary key (group_id, thread_id, task),
    foreign key (thread_id, task) references finished_task (thread_id, task) on delete cascade
);
create index finished_group_task on finished_group (thread_id, task);

insert into finished_group (group_id, thread_id, task)
select distinct cast(g.value as bigint), f.thread_id, f.task
from finished_task f
cross join json_array_elements_text(cast(case when f.groups ~ '^\[[0-9, ]*\]$' then f.groups else '[]' end as json)) g
where length(g.value) < 19 or (length(g.value) = 19 and g.value <= '9223372036854775807');

-- As for messages: the planner keeps no samples of what is remembered.
alter table finished_group alter column task set statistics 0;
