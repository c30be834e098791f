-- What machines leave for each other: texts by kind and id.
create table document(
  kind    text not null,
  id      text not null,
  body    text not null,
  version integer not null,
  at      integer not null,
  primary key(kind, id)
) strict, without rowid;
