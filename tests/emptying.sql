-- Functions that keep what tables hold after the migrations, and bring it back: see emptying.py.
drop schema if exists emptying cascade;
create schema emptying;
create table emptying."shape of the schema" (shape text);

create function emptying.tables() returns table (id oid, name name) language sql stable as $$
    select oid, relname from pg_class where relnamespace = to_regnamespace('agentmem') and relkind in ('r', 'p')
$$;

-- What a schema is made of, without its rows: any change of a definition gives its row of the catalogue a new xmin.
create function emptying.shape() returns text language sql stable as $$
    with relation as (select oid, relname from pg_class where relnamespace = to_regnamespace('agentmem')),
    definition (id) as (
        select xmin from pg_attribute where attrelid in (select oid from relation)
        union all select xmin from pg_constraint where connamespace = to_regnamespace('agentmem')
        union all select xmin from pg_index where indrelid in (select oid from relation)
        union all select xmin from pg_trigger where tgrelid in (select oid from relation)
        union all select xmin from pg_proc where pronamespace = to_regnamespace('agentmem')
    )
    select (select string_agg(oid || relname, ' ' order by oid) from relation)
        || (select count(*) || ' ' || sum(id::text::bigint) from definition)
$$;

create function emptying.keep() returns void language plpgsql as $$
declare found record; filled bool;
begin
    for found in select * from emptying.tables() loop
        execute format('select exists (select from agentmem.%I)', found.name) into filled;
        if filled then
            execute format('create table emptying.%I as table agentmem.%1$I', found.name);
        end if;
    end loop;
    insert into emptying."shape of the schema" values (emptying.shape());
end $$;

-- Whether the schema is as it was when it was kept; false if only making it anew would help.
create function emptying.empty(grown bigint) returns boolean language plpgsql as $$
declare found record; same bool;
    elsewhere bool := to_regclass('pg_dist_node') is not null; -- where Citus has taken the rows
begin
    -- As a replica does: all tables are emptied, so that no row is looked for that names another.
    if current_setting('session_replication_role') <> 'replica'
        or coalesce(emptying.shape() <> (select shape from emptying."shape of the schema"), true)
        or exists (select from pg_statistic where starelid in (select id from emptying.tables()))
        or (select sum(pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0))
            from pg_class where relnamespace = to_regnamespace('agentmem')) > grown
    then
        return false;
    end if;
    for found in select id, name, to_regclass(format('emptying.%I', name)) as kept from emptying.tables() loop
        if found.kept is not null then
            execute format(
                'select not exists (table agentmem.%1$I except all table emptying.%1$I)'
                ' and not exists (table emptying.%1$I except all table agentmem.%1$I)', found.name
            ) into same;
            if not same then
                execute format('delete from agentmem.%I', found.name);
                execute format('insert into agentmem.%1$I overriding system value table emptying.%1$I', found.name);
            end if;
        elsif elsewhere or pg_relation_size(found.id) > 0 then
            execute format('delete from agentmem.%I', found.name);
        end if;
    end loop;
    for found in select oid as id from pg_class where relnamespace = 'agentmem'::regnamespace and relkind = 'S' loop
        if pg_sequence_last_value(found.id) is not null then
            perform setval(found.id::regclass, 1, false);
        end if;
    end loop;
    return true;
end $$;
