-- Executions own what they write. A group of `memory_group` is what one execution of a task wrote; `owner` is the token of
-- its run, which no other run has, and `ended` says that it ended without a result, so that whoever executes the task again
-- takes its place. All times are microseconds since 1970-01-01 UTC.
alter table memory_group add column owner integer;
alter table memory_group add column ended integer not null default 0;

-- Which earlier results count is told by LangGraph, and not by how often a caller was begun.
alter table finished_task drop column attempt;

-- The run that wrote it, if it has an id: what a run wrote towards a checkpoint that another one made is deleted with it.
alter table pending_write add column run_id text;
create index pending_write_run on pending_write (run_id) where run_id is not null;
