-- What limits over all engines of a project are compared by, apart from the spec, which is long.
alter table task add column concurrency_group text;
alter table task add column writes text;             -- JSON; null where it declares none
update task set
  concurrency_group = (select json_extract(s.body, '$.concurrency_group') from spec s where s.task = task.seq),
  writes = (select json_extract(s.body, '$.writes') from spec s where s.task = task.seq
    and json_array_length(json_extract(s.body, '$.writes')) > 0);

-- How often in a row whoever held the task has gone without a word.
alter table task add column lost integer not null default 0;

-- When an engine last started something.
create table started(one integer primary key check (one = 1), at integer not null) strict;
