//! Several machines on one store and one hub, each with its own network, home, clone and identity; and everything that
//! can happen between them.
//!
//! The tests run in namespaces of their own, so this program starts itself again inside of them.
#![expect(clippy::print_stdout, reason = "it prints what it tried and found")]

mod history;
mod hub;
mod landing;
mod lease;
mod network;
mod scene;
mod witness;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use regatta_testkit::net;

/// The program under test.
const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

/// A test and its name.
type Story = (&'static str, fn());

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // They mostly wait for leases to end.
    args.test_threads.get_or_insert(4);
    // The longest one first.
    let all = [
        ("history", history::STORIES),
        ("network", network::STORIES),
        ("hub", hub::STORIES),
        ("landing", landing::STORIES),
        ("lease", lease::STORIES),
    ];
    let trials = all.iter().flat_map(|(module, stories)| {
        stories.iter().map(move |(name, story)| {
            Trial::test(format!("{module}::{name}"), move || {
                story();
                Ok(())
            })
        })
    });
    let trials: Vec<Trial> = trials.collect();
    // Listing needs no namespaces.
    if !args.list
        && let Some(status) = net::enter()
    {
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    libtest_mimic::run(&args, trials).exit_code()
}
