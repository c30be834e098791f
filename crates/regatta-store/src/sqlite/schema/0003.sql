-- What people said to a task's agent after its order: told one per attempt, in order.
create table prompt(
  task    integer not null,
  n       integer not null,        -- from 1, per task
  text    text not null,
  by      text not null,
  at      integer not null,
  state   text not null,           -- queued, taken, told
  attempt integer,                 -- the last that took it
  request text not null,           -- the request that brought it, and what that was answered:
  place   integer not null,
  rearmed integer not null,
  unique(task, n),
  unique(task, request)
) strict;
create index prompt_waiting on prompt(task, n) where state = 'queued';
create index prompt_taken on prompt(task) where state = 'taken';

-- The state, JSON, that a task had when it was followed up: done or landed work that stands meanwhile.
alter table task add column standing text;
