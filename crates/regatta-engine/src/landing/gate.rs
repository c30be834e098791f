//! The gate: `land.test_command`, run on exactly the commit that would land.

use std::path::Path;
use std::sync::Arc;

use regatta_core::commit_message::pins;
use regatta_core::exit::Exit;
use regatta_core::hex::hex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::train::LandError;
use crate::clock;
use crate::commands::{NO_LIMIT, Ran, Shell};
use crate::context::Context;
use crate::git::Oid;
use crate::session::node_name;
use crate::siblings::Pins;
use crate::worker::Stop;

/// Maximum number of kept gate outputs.
const MOST_OUTPUTS: usize = 200;
/// How often in a row a gate that is killed is run.
const MOST_KILLS: u32 = 3;

/// The result of a gate.
pub(crate) enum Gate {
    /// It passed; if `flaky`, not at the first try.
    Passed { note: String, flaky: bool },
    /// It failed.
    Failed { detail: String },
    /// No result: the run is being stopped.
    Stopped,
    /// No result: the command could not be run at all, which is no car's fault.
    Trouble { why: String },
}

/// A fingerprint of everything that defines the gate: passing one gate says nothing about another. `None` without a
/// gate.
pub(crate) fn fingerprint(ctx: &Context, with: &Pins) -> Option<String> {
    let config = &ctx.settings.config;
    let command = config.land.test_command.as_ref()?;
    Some(fingerprint_of(command, config.lane.setup.as_deref().unwrap_or_default(), &surroundings(with)))
}

/// The kind of machine, and the repositories beside the candidate.
fn surroundings(with: &Pins) -> String {
    let parts: Vec<String> = [machine_kind()].into_iter().chain(pins(with)).collect();
    parts.join(" ")
}

/// The kind of machine that a pass counts for: what passes on one may fail on another.
fn machine_kind() -> String {
    format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH)
}

fn fingerprint_of(command: &str, setup: &str, machine: &str) -> String {
    let mut hash = Sha256::new();
    for part in [command, setup, machine] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

/// Checks out `candidate` separately, with these commits of other repositories beside it, and runs the gate there.
pub(crate) async fn gate(
    ctx: &Arc<Context>,
    candidate: &Oid,
    with: &Pins,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Gate, LandError> {
    let land = &ctx.settings.config.land;
    let Some(command) = &land.test_command else {
        return Ok(Gate::Passed { note: "no gate".to_owned(), flaky: false });
    };
    let started = clock::now();
    let lane = ctx
        .blocking({
            let candidate = candidate.clone();
            move |ctx| ctx.repository.lanes.lease(&candidate)
        })
        .await?;
    ctx.lay_out_siblings(&lane, with).await?;
    ctx.furnish(&lane, Path::new("")).await?;
    let name = candidate.short();
    let dir = ctx.repository.state_dir.join("gates").join(name);
    let secrets = ctx.secrets_in_lane(&lane.task);
    let run_id = format!("gate.{name}.{}", ctx.services.session);
    let shell = Shell::for_gate(ctx, &lane.path, Some(lane.git_dir()), &dir, run_id, secrets);
    let mut said = None;
    let (mut tries, mut kills, mut trouble) = (0, 0, false);
    if let Some(due) = ctx.setup_due(&lane).await? {
        let setup = &due.command;
        let limit = ctx.settings.config.lane.setup_timeout.unwrap_or(NO_LIMIT);
        let ran = shell.run(ctx, setup, limit, stop.clone()).await;
        trouble = says_nothing(&ran.exit);
        said = failure(ctx, "lane.setup", setup, candidate, &ran);
        if said.is_none() {
            ctx.setup_done(&lane, &due).await?;
        }
    }
    while said.is_none() && stop.borrow().is_none() {
        let ran = shell.run(ctx, command, land.test_timeout.unwrap_or(NO_LIMIT), stop.clone()).await;
        trouble = says_nothing(&ran.exit);
        if is_killed(&ran.exit) && stop.borrow().is_none() {
            kills += 1;
            if kills == MOST_KILLS {
                said = failure(ctx, "the gate", command, candidate, &ran)
                    .map(|detail| format!("killed {kills} times in a row, out of memory? {detail}"));
            }
            continue;
        }
        kills = 0;
        tries += 1;
        match failure(ctx, "the gate", command, candidate, &ran) {
            None => break,
            Some(_) if tries <= land.retries => {}
            failed => said = failed,
        }
    }
    let done_with = said.is_none().then_some(dir);
    let gates = ctx.repository.state_dir.join("gates");
    ctx.blocking(move |_| {
        forget_output(&gates, done_with.as_deref());
        lane.give_back()
    })
    .await?;
    if stop.borrow().is_some() {
        return Ok(Gate::Stopped);
    }
    let took = regatta_core::time::human(clock::now().since(started));
    Ok(match said {
        Some(why) if trouble => Gate::Trouble { why },
        None if tries > 1 => {
            Gate::Passed { note: format!("`{command}` passed on try {tries}: flaky ({took})"), flaky: true }
        }
        None => Gate::Passed { note: format!("`{command}` passed in {took}"), flaky: false },
        Some(detail) => Gate::Failed { detail },
    })
}

/// Whether a command ended in a way that says nothing about the tested content.
fn says_nothing(exit: &Exit) -> bool {
    matches!(exit, Exit::NeverStarted { .. } | Exit::Lost) || is_killed(exit)
}

/// Whether it was killed from outside, for example by the kernel for lack of memory: itself, or a child whose end a
/// shell passed on. A crashing program ends by other signals, and that is its own fault.
fn is_killed(exit: &Exit) -> bool {
    const FROM_OUTSIDE: [i32; 4] = [1, 2, 9, 15];
    match exit {
        Exit::Signalled { signal } => FROM_OUTSIDE.contains(signal),
        Exit::Exited { code } => [9, 15].contains(&(code - 128)),
        _ => false,
    }
}

/// Deletes the output of a gate that passed, and all but the latest outputs of failed ones.
fn forget_output(gates: &Path, passed: Option<&Path>) {
    if let Some(dir) = passed {
        let _ = std::fs::remove_dir_all(dir);
    }
    let entries = std::fs::read_dir(gates).into_iter().flatten().flatten();
    let mut kept: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    kept.sort();
    let surplus = kept.len().saturating_sub(MOST_OUTPUTS);
    for (_, dir) in kept.into_iter().take(surplus) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// The message for a failed command.
fn failure(ctx: &Context, what: &str, command: &str, candidate: &Oid, ran: &Ran) -> Option<String> {
    if ran.exit.success() {
        return None;
    }
    let last = ran.output.trim_end().lines().rev().take(5).collect::<Vec<_>>();
    let tail = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    let at = candidate.short();
    let tail = if tail.is_empty() { tail } else { format!(": {tail}") };
    // Where machines share the store, the reader may be on another one.
    let node = if ctx.services.store.is_shared() { format!("{}:", node_name()) } else { String::new() };
    Some(format!(
        "{what} `{command}` {} on {at} (full output: {node}.regatta/gates/{at}){tail}",
        ran.exit.predicate()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regatta_core::repos::RepoName;

    use super::*;

    #[test]
    fn a_pass_counts_for_one_command_one_setup_and_one_kind_of_machine() {
        let here = machine_kind();
        let known = fingerprint_of("make test", "make deps", &here);
        assert_eq!(known, fingerprint_of("make test", "make deps", &here));
        let others = [
            fingerprint_of("make check", "make deps", &here),
            fingerprint_of("make test", "", &here),
            fingerprint_of("make test", "make deps", "linux/another"),
            // Parts do not run into each other.
            fingerprint_of("make testmake deps", "", &here),
        ];
        let all: BTreeSet<&String> = others.iter().chain([&known]).collect();
        assert_eq!(all.len(), 5);
        assert!(here.contains(std::env::consts::ARCH), "{here}");
        // Without other repositories, passes of older versions count.
        assert_eq!(surroundings(&Pins::new()), here);
        let with = |commit| Pins::from([(RepoName::parse("lib").unwrap(), Oid::sample(commit))]);
        let all = BTreeSet::from([here, surroundings(&with("one")), surroundings(&with("two"))]);
        assert_eq!(all.len(), 3);
    }
}
