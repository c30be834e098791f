-- Content that passed a gate, so that it is never tested twice.
create table pass(
  seq  integer primary key autoincrement,
  gate text not null,              -- a hash of all that the gate does
  tree text not null,
  at   integer not null,
  unique(gate, tree)
) strict;
