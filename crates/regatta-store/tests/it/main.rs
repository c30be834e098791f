//! What the backends promise, tried from outside.

mod broken_wire;
mod child;
mod durability;
mod fixture;
mod migrations;
mod model;
mod newer;
mod postgres;
mod transfer;
mod zookeeper;
mod zookeeper_transfer;

/// The conformance suite as it stands.
mod sqlite {
    regatta_store::conformance!(crate::fixture::File::fresh(0));
}

/// The same behind a network that loses a quarter of all requests and of all answers.
mod sqlite_faulty {
    regatta_store::conformance!(crate::fixture::File::fresh(25));
}

/// The same with rules that read in rounds, as in a store over a network.
mod sqlite_in_rounds {
    regatta_store::conformance!(crate::fixture::File::in_rounds());
}

/// The same on PostgreSQL.
mod postgres_plain {
    regatta_store::conformance!(crate::postgres::Schema::fresh(0));
}

/// The same on PostgreSQL, behind the network that loses a quarter.
mod postgres_faulty {
    regatta_store::conformance!(crate::postgres::Schema::fresh(25));
}

/// The same on ZooKeeper.
mod zookeeper_plain {
    regatta_store::conformance!(crate::zookeeper::Chroot::fresh(0));
}

/// The same on ZooKeeper, behind the network that loses a quarter.
mod zookeeper_faulty {
    regatta_store::conformance!(crate::zookeeper::Chroot::fresh(25));
}

/// The same on three servers of ZooKeeper.
mod zookeeper_on_three {
    regatta_store::conformance!(crate::zookeeper::Chroot::on_three());
}
