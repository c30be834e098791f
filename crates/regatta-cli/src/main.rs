//! `regatta`: the only binary. Three hidden commands are handled before everything else, because they have to be small
//! and fast: the shim that supervises one attempt, the sandbox around its agent, and the simulated agent.

mod authority;
mod cli;
mod commands;
mod crew;
mod exit;
mod help;
mod parallel;
mod project;
mod queue;
#[cfg(test)]
mod reference;
mod render;
mod setup;
mod top;
mod trust;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("confine") => exit_code(regatta_engine::confine::main(args)),
        Some("shim") => exit_code(regatta_engine::shim::main(args)),
        Some("sim-agent") => exit_code(regatta_engine::agents::sim::main(&args.collect::<Vec<_>>())),
        _ => cli::main(),
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
