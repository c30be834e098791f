//! What this machine is and has.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use regatta_core::config::{AgentKind, Config};
use regatta_core::node::NodeRecord;
use regatta_core::plain::clean_line;

use crate::agents::find_program;
use crate::node;
use crate::process::Identity;

/// How long an agent's program may take to say its version.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest version that is kept, in characters.
const LONGEST_VERSION: usize = 64;

/// What this machine is and has, without starting any program. `root` is the repository's, from which relative programs
/// are found.
pub fn here(config: &Config, root: &Path) -> NodeRecord {
    let found = |program: Option<&str>| program.is_none_or(|program| find_program(program, root).is_some());
    let agents = config.agents.iter().filter(|(name, _)| config.node.accept.takes_agent(name));
    let agents = agents.filter(|(_, agent)| found(agent.program()));
    NodeRecord {
        id: node::id().unwrap_or_default(),
        name: node::wanted_name(),
        machine: Identity::current().ok().and_then(|own| own.machine),
        labels: config.node.labels.iter().cloned().collect(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        memory_gb: memory_gb(),
        agents: agents.map(|(name, _)| (name.clone(), String::new())).collect(),
        profiles: config.profiles.iter().map(|profile| profile.name.clone()).collect(),
        slots: config.max_workers,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rest: Default::default(),
    }
}

/// The machine's memory, to the nearest GiB: some of it is always reserved.
fn memory_gb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    (kib + (1 << 19)) >> 20
}

/// The agents of a record with their versions, without those whose programs do not exist. One that does not answer now
/// keeps what is known of it. Only programs of known kinds are asked: others may not know the option.
pub(crate) async fn with_versions(
    agents: BTreeMap<String, String>,
    config: &Config,
    root: &Path,
) -> BTreeMap<String, String> {
    let mut answered = BTreeMap::new();
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (name, before) in agents {
        let agent = config.agents.get(&name);
        let is_known = agent.is_some_and(|agent| !matches!(agent.kind, AgentKind::Command | AgentKind::Sim));
        let program = agent.filter(|_| is_known).and_then(|agent| agent.program());
        let Some(program) = program else {
            answered.insert(name, String::new());
            continue;
        };
        let Some(path) = find_program(program, root) else { continue };
        if !known.contains_key(program) {
            known.insert(program.to_owned(), version(&path).await);
        }
        answered.insert(name, known.get(program).cloned().flatten().unwrap_or(before));
    }
    answered
}

/// What a program says its version is; `None` if it does not answer, or fails.
async fn version(program: &Path) -> Option<String> {
    let asked = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(ANSWER, asked).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = clean_line(text.lines().next().unwrap_or_default());
    // Most say their name first or last: `codex-cli 0.44.0`, `2.0.14 (Claude Code)`.
    let word = line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let version = word.unwrap_or(&line).chars().take(LONGEST_VERSION).collect();
    output.status.success().then_some(version)
}
