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
