//! The sandbox that everything an agent causes to run is kept in: what it consists of, as values.

pub mod level;
pub mod plan;

pub use level::Level;
pub use plan::{Confinement, Net, PathAccess, PathRule};
