//! The real agent command lines, driven through whole plans against our own model API on the loopback interface.

mod scene;

mod chain;
mod conversations;
mod crashes;
mod inspector;
mod refusals;
mod tools;
mod usage;
mod work;

/// The program under test.
const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");
