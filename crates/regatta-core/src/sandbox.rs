//! The sandbox that everything an agent causes to run is kept in, as values: the user's settings, the tables of what is
//! hidden and protected, and the decision what an attempt may reach.

pub mod caches;
pub mod choice;
pub mod hosts;
pub mod level;
pub mod plan;
pub mod policy;
pub mod secrets;
pub mod settings;
pub mod state;
#[cfg(test)]
mod tests;
pub mod wire;

pub use choice::{Choice, Machine, NoNamespaces, Unconfinable, Weakness, choose};
pub use level::Level;
pub use plan::{Confinement, Net, PathAccess, PathRule};
pub use policy::{BoxDirs, Disk, Facts, Policy, Refusal, policy};
pub use settings::SandboxSettings;
pub use state::{AgentState, Protected, state_of};
