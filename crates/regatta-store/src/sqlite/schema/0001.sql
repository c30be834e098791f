-- Version 1.
-- Instants are milliseconds since the epoch. JSON is what regatta-core's types serialise to.

create table session(
  id    text primary key,
  node  text not null,             -- JSON
  beat  integer not null,
  ended text                       -- null while open; then the JSON list of the tasks it held at its end
) without rowid, strict;

create table task(
  seq                  integer primary key autoincrement,
  id                   text not null,
  folded               text not null unique,
  queue                text not null,
  rank                 integer not null,   -- minus the priority, so that claim order is ascending
  name                 text not null,      -- the state's name
  state                text not null,      -- the state, JSON
  fate                 integer not null,   -- 0 open, 1 met, 2 dead
  wakes_at             integer,            -- the time it waits for
  unmet                integer not null,   -- how many of its dependencies are not met
  attempts             integer not null,
  charged              integer not null,
  environment_failures integer not null,
  fence                integer not null,
  session              text,               -- the holder; set exactly while a claim holds it
  claim_request        text,               -- the request behind the last claim
  token_hash           text,
  cancel_asked         text,
  created_at           integer not null,
  updated_at           integer not null
) strict;

-- What could be claimed now, in claim order. Only rows that are ready are in it.
create index task_ready on task(queue, rank, seq) where name = 'pending' and wakes_at is null and unmet = 0;
create index task_timer on task(queue, wakes_at) where wakes_at is not null;
create index task_held on task(session) where session is not null;
create index task_state on task(queue, name);

-- Beside the task, because a row is rewritten whole at every change of state and prompts are long.
create table spec(task integer primary key, body text not null) strict;

create table dependency(child integer not null, parent integer not null, primary key(child, parent)) without rowid, strict;
create index dependency_parent on dependency(parent, child);

create table attempt(task integer not null, n integer not null, body text not null, unique(task, n)) strict;

-- What the worker of an attempt has said: its last verdict, and whether it called itself stuck after that.
create table report(
  task integer not null, attempt integer not null, statement text, stuck text,
  primary key(task, attempt)
) without rowid, strict;

create table event(
  seq     integer primary key autoincrement,
  at      integer not null,
  task    integer,
  attempt integer,
  body    text not null
) strict;
create index event_task on event(task, seq) where task is not null;

-- Every request that was carried out, so that a repeat of it changes nothing.
create table request(
  request text not null, kind text not null, task integer not null,
  primary key(request, kind, task)
) without rowid, strict;

create table role(role text primary key, session text, term integer not null) without rowid, strict;

create table car(
  seq     integer primary key autoincrement,
  task    integer not null unique,
  target  text not null,
  attempt integer not null,
  request text not null,           -- JSON
  step    text not null            -- JSON
) strict;
create index car_target on car(target, seq);
