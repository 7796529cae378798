-- name: blob_keys
-- A page of the keys from `low` up to but without `high`, in order. Both are cut as keys are, so that the index is
-- asked for a range of heads; few keys are so long that their rests decide. The index has them in the order of their
-- heads: the page is cut before it is sorted.
select head, rest, mark
from (
    select b.head, b.rest, b.mark
    from blob b
    where b.namespace_id = (select id from namespace where path = :path)
        and b.head >= :low_head and (b.head > :low_head or b.rest >= :low_rest)
        and b.head <= :high_head and (b.head < :high_head or b.rest < :high_rest)
    order by b.head
    fetch first (cast(:limit as bigint)) rows with ties
) page
order by head, rest
limit cast(:limit as bigint);
