//! `regatta`: the only binary. Hidden commands are handled before everything else, because they have to be small and
//! fast: the shim that supervises one attempt, the sandbox around its agent, the worker that answers one request of
//! that agent, and the simulated agent.

mod authority;
mod cli;
mod commands;
mod crew;
mod door;
mod exit;
mod help;
mod parallel;
mod project;
mod queue;
#[cfg(test)]
mod reference;
mod render;
mod top;
mod trust;
mod ui;
mod visit;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("confine") => exit_code(regatta_engine::confine::main(args)),
        Some("shim") => exit_code(regatta_engine::shim::main(args)),
        Some("worker") => visit::main(args),
        Some("sim-agent") => exit_code(regatta_engine::agents::sim::main(&args.collect::<Vec<_>>())),
        _ => cli::main(),
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
