//! The target at the remote, with `land.push`: reads it, and moves it before the local branch.
//!
//! Invariant: work lands first at the remote and then here, so a refused push has changed nothing; a crash in between
//! is noticed in the next round, because the remote has what was about to land. The remote moves only forwards, and
//! only from the commit that was seen there: a replaced lander cannot add to what its successor pushed. Settings, hooks
//! and addresses are those of the trust snapshot: an agent cannot redirect a push.

use std::time::Duration;

use crate::commands::Shell;
use crate::context::Context;
use crate::git::{GitError, HookSource, Oid, is_executable};
use crate::hub;
use crate::worker::Stop;
use std::sync::Arc;
use tokio::sync::watch;

/// Time limit of the `pre-push` hook.
const HOOK_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Where to build, and from where to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RemoteStanding {
    /// Build on this commit: the remote has it, or is behind.
    On(Option<Oid>),
    /// Each side has commits that the other lacks.
    Diverged { remote: Oid },
}

/// The result of a push.
pub(super) enum Pushed {
    Done,
    /// The remote branch was moved by someone else first.
    Moved,
    /// It was refused.
    Refused(String),
    /// Unknown whether it arrived: git was killed, or the connection broke.
    Unknown(String),
}

/// The remote of the target; `None` if there is none.
pub(super) fn name(ctx: &Context) -> Result<Option<String>, GitError> {
    hub::default_remote(&ctx.repository.work)
}

/// Fetches the target from the remote without touching the user's branches; `None` if it does not exist there.
pub(super) fn fetch(ctx: &Context, remote: &str) -> Result<Option<Oid>, GitError> {
    let target = &ctx.repository.target;
    let git = || ctx.repository.work.bare().cwd(&ctx.repository.checkout).env("GIT_TERMINAL_PROMPT", "0");
    let listed = git().args(["ls-remote", "--", remote]).arg(format!("refs/heads/{target}")).text()?;
    let Some(oid) = listed.split_whitespace().next().map(Oid::parse).transpose()? else { return Ok(None) };
    if !ctx.repository.work.exists(&oid)? {
        let refspec = format!("+refs/heads/{target}:refs/regatta/remote/{target}");
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        git().args(quiet).args(["--", remote]).arg(refspec).bytes()?;
    }
    Ok(Some(oid))
}

/// Which of the two sides to build on.
pub(super) fn standing(
    ctx: &Context,
    local: Option<Oid>,
    remote: Option<Oid>,
) -> Result<RemoteStanding, GitError> {
    Ok(match (local, remote) {
        (local, None) => RemoteStanding::On(local),
        (None, Some(remote)) => RemoteStanding::On(Some(remote)),
        (Some(local), Some(remote)) if ctx.repository.work.is_ancestor(&remote, &local)? => {
            RemoteStanding::On(Some(local))
        }
        (Some(local), Some(remote)) => {
            if ctx.repository.work.is_ancestor(&local, &remote)? {
                RemoteStanding::On(Some(remote))
            } else {
                RemoteStanding::Diverged { remote }
            }
        }
    })
}

/// Runs the user's `pre-push` hook, then moves the target at the remote. Never by force.
pub(super) async fn push(
    ctx: &Arc<Context>,
    remote: &str,
    old: Option<Oid>,
    new: Oid,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Pushed, GitError> {
    push_branch(ctx, remote, &ctx.repository.target, old, new, stop).await
}

/// The same for any branch.
pub(super) async fn push_branch(
    ctx: &Arc<Context>,
    remote: &str,
    branch: &str,
    old: Option<Oid>,
    new: Oid,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Pushed, GitError> {
    if let Some(why) = hook_refuses(ctx, remote, branch, old.as_ref(), &new, stop).await? {
        return Ok(Pushed::Refused(why));
    }
    let (remote, branch) = (remote.to_owned(), branch.to_owned());
    ctx.blocking(move |ctx| {
        // A lease alone would let the branch go backwards.
        if let Some(old) = &old
            && !ctx.repository.work.is_ancestor(old, &new)?
        {
            return Ok(Pushed::Moved);
        }
        let name = format!("refs/heads/{branch}");
        let lease = format!("--force-with-lease={name}:{}", old.as_ref().map_or("", Oid::as_str));
        let command = ctx
            .repository
            .work
            .bare()
            .cwd(&ctx.repository.checkout)
            .env("GIT_TERMINAL_PROMPT", "0")
            .only_once();
        let flags = ["push", "--porcelain", "--no-verify", &lease, "--", &remote];
        let ran = command.args(flags).arg(format!("{new}:{name}")).run()?;
        if ran.code == Some(0) {
            return Ok(Pushed::Done);
        }
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let moved = said.lines().any(|line| {
            let elsewhere = ["(fetch first)", "(non-fast-forward)", "(stale info)"];
            line.starts_with('!') && elsewhere.iter().any(|why| line.contains(why))
        });
        if moved {
            return Ok(Pushed::Moved);
        }
        let refusal = said.lines().find(|line| line.starts_with('!')).map(str::to_owned);
        let hints =
            ran.stderr.lines().filter(|line| line.starts_with("remote:") || line.starts_with("fatal:"));
        let mut why: Vec<String> = hints.map(|line| line.trim().to_owned()).take(5).collect();
        if let Some(line) = refusal {
            why.push(line.split('\t').next_back().unwrap_or_default().to_owned());
            let why = why.join("; ");
            return Ok(Pushed::Refused(format!("{remote} refused the push of {branch}: {why}")));
        }
        if ran.code.is_none() {
            why.push("git was killed".to_owned());
        }
        let why = why.join("; ");
        Ok(Pushed::Unknown(format!("the push of {branch} to {remote} did not finish: {why}")))
    })
    .await
}

/// The output of the user's `pre-push` hook, if it refuses the target.
pub(super) async fn refused_by_hook(
    ctx: &Arc<Context>,
    remote: &str,
    old: Option<&Oid>,
    new: &Oid,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Option<String>, GitError> {
    hook_refuses(ctx, remote, &ctx.repository.target, old, new, stop).await
}

async fn hook_refuses(
    ctx: &Arc<Context>,
    remote: &str,
    branch: &str,
    old: Option<&Oid>,
    new: &Oid,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Option<String>, GitError> {
    let dir = match ctx.repository.work.trust().hooks() {
        None => return Ok(None),
        Some(HookSource::Shared(dir)) => ctx.repository.work.trust().trusted_hooks_dir(dir)?,
        Some(HookSource::InLane(dir)) => {
            ctx.repository.work.trust().trusted_hooks_dir(&ctx.repository.checkout.join(dir))?
        }
    };
    let program = dir.join("pre-push");
    if !is_executable(&program) {
        return Ok(None);
    }
    let key = format!("remote.{remote}.url");
    let url = ctx.repository.work.bare().args(["config", "--get", &key]).run()?;
    let url = String::from_utf8_lossy(&url.stdout).trim().to_owned();
    // A hub may have an address only, which then is its name.
    let url = if url.is_empty() { remote.to_owned() } else { url };
    let none = "0".repeat(new.as_str().len());
    let name = format!("refs/heads/{branch}");
    let old = old.map_or(none.as_str(), Oid::as_str);
    let stdin = format!("{name} {new} {name} {old}\n");
    let run_dir = ctx.repository.state_dir.join("gates").join(format!("push-{}", new.short()));
    let run_id = format!("push.{}.{}", new.short(), ctx.services.session);
    // It may contain a password.
    let secrets = vec![("REMOTE".to_owned(), url.clone())];
    // The user's own program on their own behalf: it may need the key that pushes.
    let shell = Shell::for_gate(ctx, &ctx.repository.checkout, None, &run_dir, run_id, secrets);
    let ran = shell.program(ctx, &program, &[remote, &url], stdin.as_bytes(), HOOK_LIMIT, stop).await;
    if ran.exit.success() {
        return Ok(None);
    }
    let tail: Vec<&str> = ran.output.trim_end().lines().rev().take(5).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
    Ok(Some(format!("your pre-push hook refused it ({}): {tail}", ran.exit)))
}
