-- fragment: times_chosen
    first_chosen_at = least(experience_tally.first_chosen_at, excluded.first_chosen_at),
    last_chosen_at = greatest(experience_tally.last_chosen_at, excluded.last_chosen_at)

-- name: count_experiences
-- `seen` are pairs: the id of an experience that was a candidate, and 1 if it was chosen, else 0. All writers lock rows in
-- the order of the ids, so that no two of them wait for each other.
insert into experience_tally (namespace_id, exp_id, considered, chosen, first_chosen_at, last_chosen_at)
select cast(:namespace as bigint), seen.exp_id, 1, seen.chosen,
    case seen.chosen when 1 then cast(:now as bigint) end, case seen.chosen when 1 then cast(:now as bigint) end
from (
    select pair ->> 0 as exp_id, cast(pair ->> 1 as bigint) as chosen
    from json_array_elements(cast(:seen as json)) as pair
) seen
order by seen.exp_id collate "C"
on conflict (namespace_id, exp_id) do update set
    considered = experience_tally.considered + 1,
    chosen = experience_tally.chosen + excluded.chosen,
-- include: times_chosen
;

-- name: feedback_within
-- The newest feedback of the namespaces in a range of paths: on some experiences, or on all.
select f.feedback_id, f.exp_id, f.helped, f.conversation_id, f.created_at, f.note
from namespace n
join experience_feedback f on f.namespace_id = n.id
where n.path >= :low and n.path < :high
    and (cast(:exp_ids as text) is null
        or f.exp_id = any (array(select value from json_array_elements_text(cast(:exp_ids as json)))))
order by f.created_at desc, f.id desc
limit cast(:limit as bigint);
