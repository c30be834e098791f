-- Version 2.
-- The oldest program that may use the store, and the mark of a store that is moved or copied, JSON. While there is a
-- mark, `schema` is raised by a million, so that every program refuses the store when it opens it.
alter table project add column oldest_program bigint not null default 0;
alter table project add column mark text;

-- As before; and refuses every plan while the store has a mark. The mark is set under the lock of the whole project,
-- which every plan holds.
create or replace function lock_keys(keys bigint[], are_written boolean[]) returns void language plpgsql as $$
declare
  found_mark text;
begin
  for i in 1 .. coalesce(array_length(keys, 1), 0) loop
    if are_written[i] then
      perform pg_advisory_xact_lock(keys[i]);
    else
      perform pg_advisory_xact_lock_shared(keys[i]);
    end if;
  end loop;
  select mark into found_mark from project;
  if found_mark is not null then
    raise exception '%', found_mark using errcode = 'RG002';
  end if;
end $$;
