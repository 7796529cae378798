-- Shared memory of a scope: the threads of a namespace show each other what they remember. All times are microseconds since
-- 1970-01-01 UTC.

-- Who remembered something: a thread, or the branch "main" of its namespace, whose `name` is null. An author stays when its
-- thread is deleted, without `thread_id`.
create table author (
    id integer primary key autoincrement,
    namespace_id integer not null references namespace (id),
    name text,
    thread_id integer unique references thread (id) on delete set null
);
create unique index author_main on author (namespace_id) where name is null;
create index author_name on author (namespace_id, name) where name is not null;

-- `scope_id` is the namespace of the row's branch, `author_id` who wrote it. `stamp` is when it was first committed on the
-- own line of a thread, or on "main"; null before, and on the branches of subgraphs. `gone` is 2^62 while it counts, which
-- is while the head of its author shows it; else when it ceased to; 0 if it never did. `source` is where it comes from
-- ("user", "model", "tool", "import", "person"), `actor` who that is.
alter table memory add column scope_id integer;
alter table memory add column author_id integer references author (id);
alter table memory add column stamp integer;
alter table memory add column gone integer not null default 0;
alter table memory add column source text;
alter table memory add column actor text;

-- Whether a message follows the thread of its conversation's name: it is shown where that shows it.
alter table entry add column follows integer not null default 0;

-- Up to which stamp the view of a checkpoint goes, where that is not when it was put.
alter table checkpoint add column seen integer;

insert into author (namespace_id, name, thread_id) select namespace_id, name, id from thread order by id;
insert into author (namespace_id, name)
select b.namespace_id, b.thread from branch b
where b.kind = 'thread' and b.thread is not null
    and not exists (select 1 from author a where a.namespace_id = b.namespace_id and a.name = b.thread)
union
select b.namespace_id, s.thread from seal s join branch b on b.id = s.branch_id
where s.thread is not null
    and not exists (select 1 from author a where a.namespace_id = b.namespace_id and a.name = s.thread);
insert into author (namespace_id)
select namespace_id from branch where kind = 'layers' and name = 'main' order by id;

-- Subgraphs' branches keep what they have without a stamp.
update memory
set scope_id = (select b.namespace_id from branch b where b.id = memory.branch_id),
    author_id = (
        select max(a.id) from branch b
        left join seal s on s.branch_id = b.id and s.group_id = memory.group_id
        join author a on a.namespace_id = b.namespace_id and a.name = coalesce(s.thread, b.thread)
        where b.id = memory.branch_id
    ),
    stamp = case when exists (select 1 from branch_base s where s.branch_id = memory.branch_id) then null else written_at end
where branch_id in (select id from branch where kind = 'thread');

update memory
set scope_id = (select b.namespace_id from branch b where b.id = memory.branch_id),
    author_id = (
        select a.id from branch b join author a on a.namespace_id = b.namespace_id and a.name is null
        where b.id = memory.branch_id
    ),
    stamp = written_at,
    gone = case when until = 4611686018427387904 and kind in ('core', 'event', 'record', 'fact', 'fact_former', 'fact_rule', 'message') then 4611686018427387904 else 0 end
where branch_id in (select id from branch where kind = 'layers' and name = 'main');

-- What the newest checkpoint of each thread shows of the thread's own counts.
with recursive chain (author_id, branch_id, up_to) as (
    select a.id, p.branch_id, p.position
    from checkpoint_line l
    join author a on a.thread_id = l.thread_id
    join place p on p.line_id = l.id and p.checkpoint = (select max(c.name) from checkpoint c where c.line_id = l.id)
    where l.ns = ''
    union all
    select chain.author_id, b.parent_id, b.parent_position
    from chain join branch b on b.id = chain.branch_id
    where b.parent_id is not null
)
update memory set gone = 4611686018427387904
where id in (
    select m.id from chain
    join memory m on m.branch_id = chain.branch_id and m.author_id = chain.author_id
        and m.position <= chain.up_to and m.until > chain.up_to
    where m.kind in ('core', 'event', 'record', 'fact', 'fact_former', 'fact_rule', 'message') and m.stamp is not null
);

create index memory_counts on memory (scope_id, kind, key, stamp) where gone = 4611686018427387904;
create index memory_newest on memory (scope_id, kind, stamp) where gone = 4611686018427387904;
create index memory_counted on memory (scope_id, kind, stamp) where gone > 0 and gone < 4611686018427387904;
create index memory_counts_subject on memory (scope_id, kind, subject, label, object)
    where gone = 4611686018427387904 and subject is not null;
create index memory_counts_object on memory (scope_id, kind, object)
    where gone = 4611686018427387904 and subject is not null;
create index memory_author on memory (author_id) where author_id is not null;
