-- name: blob_keys
-- A page of the keys from `low` up to but without `high`, in order. Both are cut as keys are, so that the index is
-- asked for a range of heads; few keys are so long that their rests decide.
select b.head, b.rest, b.mark
from blob b
where b.namespace_id = (select id from namespace where path = :path)
    and b.head >= :low_head and (b.head > :low_head or b.rest >= :low_rest)
    and b.head <= :high_head and (b.head < :high_head or b.rest < :high_rest)
order by b.head, b.rest
limit cast(:limit as bigint);
