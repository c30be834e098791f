//! Tries the sandbox out, for `regatta doctor`: a program, a commit, and reading what must stay hidden.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use regatta_core::sandbox::{
    AgentState, BoxDirs, Choice, Facts, Level, SandboxSettings, Unconfinable, choose, policy,
};

use super::disk::RealDisk;
use super::machine;
use crate::confine;
use crate::scratch::Passing;

/// What the trial showed.
pub struct Tried {
    /// The level, and what is weaker than it could be.
    pub choice: Choice,
    /// The Landlock ABI, if the kernel has one.
    pub landlock: Option<u32>,
}

/// Why the sandbox does not work.
pub enum NotWorking {
    /// This machine cannot do what the settings ask for.
    Refused(Unconfinable),
    /// The trial failed, for this reason.
    Failed(String),
}

impl fmt::Display for NotWorking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Tries the sandbox that these settings lead to on this machine. `exe` is the `regatta` binary.
pub fn trial(exe: &Path, settings: &SandboxSettings) -> Result<Tried, NotWorking> {
    let machine = machine(exe);
    let choice = choose(settings, &machine).map_err(NotWorking::Refused)?;
    if choice.level != Level::Off {
        try_out(exe, settings, &choice).map_err(NotWorking::Failed)?;
    }
    Ok(Tried { choice, landlock: machine.landlock.ok() })
}

fn try_out(exe: &Path, settings: &SandboxSettings, choice: &Choice) -> Result<(), String> {
    let scratch = Passing::new().map_err(|error| format!("making a directory: {error}"))?;
    let dir = scratch.path().canonicalize().map_err(|error| error.to_string())?;
    let lanes_root = dir.join("lanes");
    let boxed = BoxDirs { root: lanes_root.join(".box/a/1") };
    let (project, lane) = (dir.join("project"), lanes_root.join("a"));
    let hidden = project.join(".regatta");
    for made in [&boxed.tmp(), &lane, &hidden, &project.join(".git")] {
        std::fs::create_dir_all(made).map_err(|error| format!("{}: {error}", made.display()))?;
    }
    let store = hidden.join("store");
    std::fs::write(&store, "hidden").map_err(|error| format!("{}: {error}", store.display()))?;
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let facts = Facts {
        level: choice.level,
        copies_home: choice.copies_home,
        home: home.canonicalize().unwrap_or(home),
        config_dir: project.clone(),
        git_dir: project.join(".git"),
        state_dir: hidden,
        records: Vec::new(),
        lanes_root,
        lane: lane.clone(),
        lane_git: Vec::new(),
        siblings: Vec::new(),
        read_only: false,
        boxed,
        state: AgentState::default(),
        others: Vec::new(),
        more_write: Vec::new(),
        programs: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .filter(|dir| dir.is_absolute())
            .chain([exe.to_owned()])
            .collect(),
        local: Vec::new(),
        project,
    };
    // The user's own lists are not part of the trial; `regatta sandbox show` applies them.
    let defaults =
        SandboxSettings { home: settings.home, network: settings.network, ..SandboxSettings::default() };
    let policy = policy(&defaults, &facts, &RealDisk)
        .map_err(|refused| refused.into_iter().map(|refusal| refusal.why).collect::<Vec<_>>().join("; "))?;
    let document = policy.confinement();
    let run = |argv: &[&str]| -> Result<bool, String> {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        let mut confined =
            confine::command(exe, &document, &lane, &argv).map_err(|error| error.to_string())?;
        let output = confined.command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(true);
        }
        let is_set_up = output.status.code() != Some(confine::FAILED);
        if is_set_up { Ok(false) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
    };
    // Only programs that Regatta needs anyway.
    let exe_text = exe.to_string_lossy();
    if !run(&[&exe_text, "version"])? {
        return Err("a program did not run in it".into());
    }
    let commit = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@localhost",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ];
    if !run(&["git", "init", "-q", "."])? || !run(&commit)? {
        return Err("`git commit` did not work in it".into());
    }
    if run(&["git", "hash-object", "--no-filters", &store.to_string_lossy()])? {
        return Err("what must be hidden could be read in it".into());
    }
    Ok(())
}
