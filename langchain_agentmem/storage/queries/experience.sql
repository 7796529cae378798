-- What became of experiences. Lists come as JSON.

-- name: merge_tally
-- Of what is here and what comes the larger numbers count; no row is returned where nothing changes by that.
insert into experience_tally (namespace_id, exp_id, considered, chosen, first_chosen_at, last_chosen_at)
values (:namespace, :exp_id, :considered, :chosen, :first_chosen_at, :last_chosen_at)
on conflict (namespace_id, exp_id) do update set
    considered = case when excluded.considered > experience_tally.considered
        then excluded.considered else experience_tally.considered end,
    chosen = case when excluded.chosen > experience_tally.chosen then excluded.chosen else experience_tally.chosen end,
-- include: times_chosen
where excluded.considered > experience_tally.considered or excluded.chosen > experience_tally.chosen
    or excluded.first_chosen_at < experience_tally.first_chosen_at
    or excluded.last_chosen_at > experience_tally.last_chosen_at
returning exp_id;

-- name: add_feedback
insert into experience_feedback (namespace_id, feedback_id, exp_id, helped, conversation_id, created_at, note)
values (:namespace, :feedback_id, :exp_id, :helped, :conversation_id, :created_at, :note)
on conflict (namespace_id, feedback_id) do nothing
returning id;

-- name: find_feedback
select feedback_id, exp_id, helped, conversation_id, created_at, note from experience_feedback
where namespace_id = :namespace and feedback_id = :feedback_id;

-- name: experience_counts
-- All that is known of each experience in the namespaces of a range of paths.
select exp_id, cast(sum(considered) as bigint) as considered, cast(sum(chosen) as bigint) as chosen,
    cast(sum(helped) as bigint) as helped, cast(sum(not_helped) as bigint) as not_helped,
    max(last_chosen_at) as last_chosen_at
from (
    select t.exp_id, t.considered, t.chosen, 0 as helped, 0 as not_helped, t.last_chosen_at
    from namespace n
    join experience_tally t on t.namespace_id = n.id
    where n.path >= :low and n.path < :high
    union all
    select f.exp_id, 0, 0, case when f.helped = 1 then 1 else 0 end, case when f.helped = 0 then 1 else 0 end, null
    from namespace n
    join experience_feedback f on f.namespace_id = n.id
    where n.path >= :low and n.path < :high
) known
group by exp_id
order by exp_id;

-- name: feedback_within
-- The newest feedback of the namespaces in a range of paths.
select f.feedback_id, f.exp_id, f.helped, f.conversation_id, f.created_at, f.note
from namespace n
join experience_feedback f on f.namespace_id = n.id
where n.path >= :low and n.path < :high
order by f.created_at desc, f.id desc
limit cast(:limit as bigint);

-- name: experience_rows
-- The namespaces in a range of paths where something became of experiences, with the numbers of rows.
select n.path,
    (select count(*) from experience_tally t where t.namespace_id = n.id) as tallies,
    (select count(*) from experience_feedback f where f.namespace_id = n.id) as feedback
from namespace n
where n.path >= :low and n.path < :high and (
    exists (select 1 from experience_tally t where t.namespace_id = n.id)
    or exists (select 1 from experience_feedback f where f.namespace_id = n.id)
)
order by n.path;

-- name: feedback_rows_from
-- The same of the feedback that came from one conversation or thread.
select n.path, count(*) as feedback
from namespace n
join experience_feedback f on f.namespace_id = n.id
where n.path >= :low and n.path < :high and f.conversation_id = :name
group by n.path
order by n.path;

-- name: delete_tallies
delete from experience_tally where namespace_id = (select id from namespace where path = :path);

-- name: delete_feedback
delete from experience_feedback where namespace_id = (select id from namespace where path = :path);

-- name: delete_feedback_from
delete from experience_feedback
where namespace_id = (select id from namespace where path = :path) and conversation_id = :name;

-- name: tallies_from
-- A page of the tallies of a namespace, in the order of their ids.
select exp_id, considered, chosen, first_chosen_at, last_chosen_at from experience_tally
where namespace_id = (select id from namespace where path = :path) and exp_id >= :start
order by exp_id
limit cast(:limit as bigint);

-- name: feedback_after
-- A page of the feedback of a namespace, in the order in which it came.
select id, feedback_id, exp_id, helped, conversation_id, created_at, note from experience_feedback
where namespace_id = (select id from namespace where path = :path) and id > :after
order by id
limit cast(:limit as bigint);
