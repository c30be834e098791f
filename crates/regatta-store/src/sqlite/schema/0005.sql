-- What each attempt used, apart from its record, which is long: sums are read often.
create table spent(
  task       integer not null,
  n          integer not null,
  agent      text not null,
  model      text not null,            -- as the agent named it, else as it was asked for, else empty
  plan       text,
  at         integer,                  -- when it ended, else when it was started
  usd        real,                     -- null where nobody knows
  priced     integer not null,         -- 1 where the dollars are reckoned from the tokens
  tokens_in  integer not null,
  tokens_out integer not null,
  primary key(task, n)
) without rowid, strict;
create index spent_at on spent(at);
create index spent_plan on spent(plan) where plan is not null;

insert into spent
  select a.task, a.n, json_extract(a.body, '$.agent'), coalesce(json_extract(a.body, '$.model'), ''),
    json_extract(s.body, '$.plan'),
    cast(round((julianday(coalesce(json_extract(a.body, '$.ended_at'), json_extract(a.body, '$.started_at')))
      - 2440587.5) * 86400000) as integer),
    json_extract(a.body, '$.cost_usd'), 0,
    coalesce(json_extract(a.body, '$.tokens_in'), 0), coalesce(json_extract(a.body, '$.tokens_out'), 0)
  from attempt a join spec s on s.task = a.task;

-- Since when a task's attempts count against its budget: since it was last put into the queue anew.
alter table task add column counted_from integer not null default 0;
