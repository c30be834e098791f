-- The crew: who registered, what they tell each other, what they all know.
-- Names are compared folded, in small letters.

create table member(
  folded   text primary key,
  name     text not null,
  role     text not null,
  session  text not null,            -- open while the member is there
  lease_ms integer,                  -- null where a process stands for it
  since    integer not null
) without rowid, strict;
create unique index member_session on member(session);

create table message(
  seq      integer primary key autoincrement,
  request  text not null unique,
  at       integer not null,
  author   text not null,
  kind     text not null,            -- JSON
  reply_to integer,
  body     text not null
) strict;

create table delivery(
  folded       text not null,        -- in whose inbox
  message      integer not null,
  name         text not null,
  read_at      integer,
  dismissed_at integer,
  primary key(folded, message)
) without rowid, strict;
create index delivery_of on delivery(message, folded);   -- the last messages, whoever they are for

-- A deleted key stays behind without a value, so that its versions go on growing.
create table context(
  key     text primary key,
  value   text,
  version integer not null,
  change  integer not null unique,
  author  text not null,
  at      integer not null
) without rowid, strict;

-- The version each write made, so that a repeat of it is told the same.
create table context_write(
  request text primary key,
  version integer not null
) without rowid, strict;
