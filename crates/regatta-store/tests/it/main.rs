//! What the backends promise, tried from outside.

mod child;
mod durability;
mod fixture;
mod migrations;
mod model;

/// The conformance suite as it stands.
mod sqlite {
    regatta_store::conformance!(crate::fixture::File::fresh(0));
}

/// The same behind a network that loses a quarter of all requests and of all answers.
mod sqlite_faulty {
    regatta_store::conformance!(crate::fixture::File::fresh(25));
}
