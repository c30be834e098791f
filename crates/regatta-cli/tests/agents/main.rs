//! The real agent command lines, driven through whole plans against a model API of our own on loopback.

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
