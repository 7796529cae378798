-- fragment: times_chosen
    first_chosen_at = min(
        coalesce(experience_tally.first_chosen_at, excluded.first_chosen_at),
        coalesce(excluded.first_chosen_at, experience_tally.first_chosen_at)),
    last_chosen_at = max(
        coalesce(experience_tally.last_chosen_at, excluded.last_chosen_at),
        coalesce(excluded.last_chosen_at, experience_tally.last_chosen_at))

-- name: count_experiences
-- `seen` are pairs: the id of an experience that was a candidate, and 1 if it was chosen, else 0.
insert into experience_tally (namespace_id, exp_id, considered, chosen, first_chosen_at, last_chosen_at)
select :namespace, seen.exp_id, 1, seen.chosen, case seen.chosen when 1 then :now end, case seen.chosen when 1 then :now end
from (select json_extract(value, '$[0]') as exp_id, json_extract(value, '$[1]') as chosen from json_each(:seen)) seen
where true
order by seen.exp_id
on conflict (namespace_id, exp_id) do update set
    considered = experience_tally.considered + 1,
    chosen = experience_tally.chosen + excluded.chosen,
-- include: times_chosen
;
