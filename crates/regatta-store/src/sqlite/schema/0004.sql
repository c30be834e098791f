-- Profiles, by the kind of agent that uses their account: when each was last used, and what it has run into.
create table profile(
  name  text not null,
  agent text not null,
  turn  integer not null,          -- the highest was used last
  primary key(name, agent)
) without rowid, strict;

create table cooling(
  name      text not null,
  agent     text not null,
  "limit"   text not null,
  body      text not null,         -- JSON
  primary key(name, agent, "limit")
) without rowid, strict;
