//! Commands of the user that Regatta itself runs: checks, hooks, lane setup, the gate. Supervised like agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::bounds::Sandbox;
use regatta_core::exit::Exit;
use regatta_core::hex::hex;
use regatta_core::sandbox::Confinement;
use regatta_core::sandbox::settings::Mode;
use regatta_store::Claim;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::context::{Context, run_id};
use crate::environment::Environment;
use crate::files::end_of;
use crate::git::AS_STORED;
use crate::lanes::{HookCall, HookResult, Lane};
use crate::process::{Launch, Stdin};
use crate::sandbox::{CommandBox, Place};
use crate::shim::proxy::refused_hosts;
use crate::worker::Stop;

/// Time limit of a commit hook.
const HOOK_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Stands for no limit: a year.
pub(crate) const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// How much output is read back.
const OUTPUT: u64 = 256 * 1024;

/// A place in which commands are run.
pub(crate) struct Shell {
    cwd: PathBuf,
    dir: PathBuf,
    environment: Environment,
    run_id: String,
    /// Secrets that its output may contain and its environment does not.
    secrets: Vec<(String, String)>,
    /// The lane's lock, if it is in one.
    hold: Option<PathBuf>,
    /// The git directories of the place; `None` for a command that is not confined.
    git: Option<Vec<PathBuf>>,
    /// Variables that the task sets, which nothing replaces.
    own: BTreeMap<String, String>,
    /// Whether the user's logins at a forge are withheld.
    withholds: bool,
}

/// How a command ended, and the end of its output on both streams.
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) output: String,
}

impl Ran {
    /// Why it has no result: it was never started, or was lost with its supervisor. That is not the work's fault.
    /// `None` if it ran to its end.
    pub(crate) fn never_ran(&self) -> Option<&str> {
        match &self.exit {
            Exit::NeverStarted { error, .. } => Some(error),
            Exit::Lost => Some("it was lost with its supervisor"),
            _ => None,
        }
    }
}

impl Shell {
    /// In a task's lane, with what a check may know: the task, not its token.
    pub(crate) fn for_lane(ctx: &Context, claim: &Claim, place: &Lane, dir: &Path) -> Self {
        let lane = place.path.as_path();
        let mut environment = ctx.settings.environment.clone();
        let withholds = ctx.withholds_logins(&claim.spec);
        if withholds {
            environment.drop_forge_logins(&ctx.no_logins());
        }
        environment
            .set("REGATTA_TASK", claim.task.as_str())
            .set("REGATTA_ATTEMPT", claim.attempt.to_string());
        environment.set("REGATTA_LANE", lane.as_os_str());
        for (name, value) in ctx.sibling_variables(lane) {
            environment.set(&name, value);
        }
        for (name, value) in &claim.spec.env {
            environment.set(name, value);
        }
        let run_id = format!("{}.{}", run_id(claim), name_of(dir));
        let secrets = ctx.secrets_in_lane(&claim.task);
        let hold = Some(ctx.repository.hold_of(&claim.task));
        let agent = ctx.settings.agents.get(&claim.spec.agent).map(|agent| agent.bounds.clone());
        let bounds = claim.spec.bounds.on_top_of(&agent.unwrap_or_default());
        let git = (bounds.sandbox != Some(Sandbox::Off)).then(|| vec![place.git_dir().to_owned()]);
        let own = claim.spec.env.clone();
        let (cwd, dir) = (lane.to_owned(), dir.to_owned());
        Self { cwd, dir, environment, run_id, secrets, hold, git, own, withholds }
    }

    /// A fingerprint of the environment of commands here: with another one, the same command may have another result.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, value) in self.environment.clone().into_vars() {
            // These differ between attempts and do not affect the result.
            let is_place = |name: &str| name.starts_with("REGATTA_SIBLING") && !name.ends_with("_COMMIT");
            if name == "REGATTA_ATTEMPT" || name == "REGATTA_LANE" || name.to_str().is_some_and(is_place) {
                continue;
            }
            for part in [&name, &value] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part.as_encoded_bytes());
            }
        }
        hex(&hash.finalize()[..8])
    }

    /// In a checkout of a candidate, with its own git directory; without one it is not confined, and keeps the user's
    /// logins.
    pub(crate) fn for_gate(
        ctx: &Context,
        checkout: &Path,
        git: Option<&Path>,
        dir: &Path,
        run_id: String,
        secrets: Vec<(String, String)>,
    ) -> Self {
        let mut environment = ctx.settings.environment.clone();
        let withholds = git.is_some() && ctx.withholds_logins_from_gates();
        if withholds {
            environment.drop_forge_logins(&ctx.no_logins());
        }
        environment.set("REGATTA_LANE", checkout.as_os_str());
        for (name, value) in ctx.sibling_variables(checkout) {
            environment.set(&name, value);
        }
        let (cwd, dir) = (checkout.to_owned(), dir.to_owned());
        let git = git.map(|dir| vec![dir.to_owned()]);
        Self { cwd, dir, environment, run_id, secrets, hold: None, git, own: BTreeMap::new(), withholds }
    }

    /// Runs a line of the user's own configuration or task file, which is shell text by definition.
    pub(crate) async fn run(
        &self,
        ctx: &Context,
        command: &str,
        limit: Duration,
        stop: watch::Receiver<Option<Stop>>,
    ) -> Ran {
        let argv = ["sh", "-c", command].map(OsString::from).to_vec();
        self.launch(ctx, argv, self.environment.clone(), None, limit, stop).await
    }

    /// Runs one of the user's programs with this standard input.
    pub(crate) async fn program(
        &self,
        ctx: &Context,
        program: &Path,
        args: &[&str],
        stdin: &[u8],
        limit: Duration,
        stop: watch::Receiver<Option<Stop>>,
    ) -> Ran {
        let mut argv = vec![program.as_os_str().to_owned()];
        argv.extend(args.iter().map(OsString::from));
        self.launch(ctx, argv, self.environment.clone(), Some(stdin), limit, stop).await
    }

    /// Runs one of the user's commit hooks.
    pub(crate) async fn hook(
        &self,
        ctx: &Context,
        call: HookCall,
        stop: watch::Receiver<Option<Stop>>,
    ) -> HookResult {
        let mut environment = self.environment.clone();
        for (name, value) in call.env {
            environment.set(name, value);
        }
        let mut argv = vec![call.program.into_os_string()];
        argv.extend(call.args);
        let ran = self.launch(ctx, argv, environment, None, HOOK_LIMIT, stop).await;
        HookResult { ok: ran.exit.success(), output: format!("{}\n({})", ran.output.trim_end(), ran.exit) }
    }

    async fn launch(
        &self,
        ctx: &Context,
        argv: Vec<OsString>,
        mut environment: Environment,
        input: Option<&[u8]>,
        limit: Duration,
        mut stop: watch::Receiver<Option<Stop>>,
    ) -> Ran {
        // Commands that judge see the objects that would land, not replacements.
        for (name, value) in AS_STORED {
            environment.set(name, value);
        }
        let failed = |error: String| Ran { exit: Exit::never_started(error.clone()), output: error };
        let programs =
            argv.first().map(PathBuf::from).and_then(|program| program.parent().map(PathBuf::from));
        // Held until the command has ended: then the box is removed.
        let confined = match self.confine(ctx, &mut environment, programs) {
            Ok(confined) => confined,
            Err(error) => return failed(error),
        };
        if self.withholds {
            environment.without_git_logins();
        }
        // One directory per launch: a shim never shares its records.
        let dir = fresh_dir(&self.dir);
        let dir = match dir {
            Ok(dir) => dir,
            Err(error) => {
                return failed(format!("{}: {error}", self.dir.display()));
            }
        };
        let (stdout, stderr, stdin) = (dir.join("stdout"), dir.join("stderr"), dir.join("stdin"));
        let stdin = match input.map(|bytes| std::fs::write(&stdin, bytes)) {
            None => Stdin::Null,
            Some(Ok(())) => Stdin::File(stdin),
            Some(Err(error)) => {
                return failed(format!("{}: {error}", stdin.display()));
            }
        };
        let launch = Launch {
            run_dir: dir,
            argv,
            cwd: self.cwd.clone(),
            env: environment.into_vars(),
            secrets: self.secrets.clone(),
            stdin,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            run_id: self.run_id.clone(),
            limit: Some(limit),
            grace: ctx.settings.options.grace,
            log_limit: Some(ctx.settings.config.limits.log_bytes()),
            hold: self.hold.clone(),
            confine: confined.as_ref().map(|(_, confinement)| confinement.clone()),
            door: None,
            proxy: confined.as_ref().and_then(|_| ctx.proxy(ctx.reach_of_commands())),
        };
        let asked = async {
            loop {
                let now = stop.borrow_and_update().clone();
                match now {
                    Some(Stop::Cancel { by }) => return format!("cancelled by {by}"),
                    Some(Stop::Interrupt { why, .. }) => return why,
                    None => {}
                }
                if stop.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let exit = ctx.services.supervisor.run(&launch, asked).await;
        let mut output = end_of(&stdout, OUTPUT);
        let errors = end_of(&stderr, OUTPUT);
        if !errors.trim().is_empty() {
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
            output.push_str(&errors);
        }
        let refused = refused_hosts(&launch.run_dir);
        if !refused.is_empty() {
            let hosts: Vec<String> = refused.iter().map(ToString::to_string).collect();
            output.push_str(&format!("the sandbox refused {}\n", hosts.join("; ")));
        }
        if let Exit::NeverStarted { error, .. } = &exit {
            output.push_str(error);
        }
        Ran { exit, output }
    }
}

impl Shell {
    /// The box of one command, and what it may reach; `None` without a sandbox.
    fn confine(
        &self,
        ctx: &Context,
        environment: &mut Environment,
        programs: Option<PathBuf>,
    ) -> Result<Option<(CommandBox, Arc<Confinement>)>, String> {
        let Some(git) = &self.git else { return Ok(None) };
        if ctx.settings.config.sandbox.mode == Mode::Off {
            return Ok(None);
        }
        let boxed = CommandBox::make(ctx.repository.lanes.root())
            .map_err(|error| format!("making a directory for temporary files: {error}"))?;
        let programs = programs.into_iter().collect();
        let place = Place { path: &self.cwd, git: git.clone(), read_only: false, programs };
        let Some((policy, level)) = ctx.command_policy(Sandbox::Workspace, &place, boxed.dirs.clone())?
        else {
            return Ok(None);
        };
        ctx.go_inside(environment, &boxed.dirs, level);
        for (name, value) in &self.own {
            environment.set(name, value);
        }
        Ok(Some((boxed, Arc::new(policy.confinement()))))
    }
}

fn name_of(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `dir/1`, `dir/2`, …: the first that does not exist yet.
fn fresh_dir(dir: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    for n in 1.. {
        let path = dir.join(n.to_string());
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are more numbers than directories")
}
