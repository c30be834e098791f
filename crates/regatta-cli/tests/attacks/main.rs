//! The attack suite: what an agent or a stranger's repository may try, with the real binary and real git. One file per
//! theme; each test is an attack that must fail. The agents have no sandbox, which would stop most of them earlier: what
//! is tested has to hold for `sandbox: off` too. The suite `escapes` attacks the sandbox itself.

mod authority;
mod claims;
mod files;
mod links;
mod objects;
mod own_git;
mod planted;
mod secrets;
mod stash;
mod strangers;
mod terminal;

/// The program under test.
const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");
