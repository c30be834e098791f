//! Notifies through a program: the user's own, or the desktop's. Supervised like everything that Regatta starts.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use regatta_core::exit::Exit;
use regatta_core::notify::{Notification, NotifyKind};

use super::teller::Delivery;
use crate::agents::find_program;
use crate::context::Context;
use crate::files::end_of;
use crate::process::{Launch, Stdin};

/// Time limit; then its whole tree is ended.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between asking it to end and killing it.
const GRACE: Duration = Duration::from_secs(1);

/// Distinguishes the commands of one process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Runs the program in the user's checkout, without a shell: the payload is on its standard input, and in variables.
pub(super) async fn deliver(
    ctx: &Arc<Context>,
    argv: &[String],
    told: &Notification,
    over: impl Future<Output = ()>,
) -> Delivery {
    let name = format!("{}.{}", ctx.services.session, COUNT.fetch_add(1, Ordering::Relaxed));
    let dir = ctx.repository.project_dir.join("notify").join("runs").join(&name);
    let launch = match prepare(ctx, argv, told, &dir, &name) {
        Ok(launch) => launch,
        Err(error) => return Delivery::GivenUp(format!("{}: {error}", dir.display())),
    };
    let (cut, mut was_cut) = tokio::sync::oneshot::channel();
    let asked = async {
        over.await;
        let _ = cut.send(());
        "Regatta ends".to_owned()
    };
    let exit = ctx.services.supervisor.run(&launch, asked).await;
    let said = end_of(&launch.stderr, 4096);
    let _ = std::fs::remove_dir_all(&dir);
    if exit.success() {
        Delivery::Done
    } else if was_cut.try_recv().is_ok() {
        Delivery::Cut
    } else {
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let why = match &exit {
            // The message that follows names the program already.
            Exit::NeverStarted { error, .. } => {
                let named = argv.first().and_then(|program| error.strip_prefix(program.as_str()));
                named.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(error).to_owned()
            }
            exit => exit.to_string(),
        };
        Delivery::GivenUp(if last.is_empty() { why } else { format!("{why}: {}", last.trim()) })
    }
}

fn prepare(
    ctx: &Context,
    argv: &[String],
    told: &Notification,
    dir: &Path,
    run_id: &str,
) -> std::io::Result<Launch> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let stdin = dir.join("payload.json");
    std::fs::write(&stdin, format!("{}\n", told.payload()))?;
    let mut environment = ctx.settings.environment.clone();
    for (name, value) in told.variables() {
        environment.set(name, value);
    }
    let mut argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    if let Some(program) = argv.first_mut().filter(|program| program.to_string_lossy().contains('/')) {
        *program = ctx.repository.checkout.join(PathBuf::from(&*program)).into_os_string();
    }
    Ok(Launch {
        run_dir: dir.to_owned(),
        argv,
        cwd: ctx.repository.checkout.clone(),
        env: environment.into_vars(),
        secrets: Vec::new(),
        stdin: Stdin::File(stdin),
        stdout: dir.join("stdout"),
        stderr: dir.join("stderr"),
        run_id: format!("notify.{run_id}"),
        limit: Some(LIMIT),
        grace: GRACE,
        log_limit: Some(ctx.settings.config.limits.log_bytes()),
        hold: None,
        confine: None,
        door: None,
        proxy: None,
    })
}

/// The command that shows it on the desktop, if one is installed.
pub(super) fn desktop(ctx: &Context, told: &Notification) -> Option<Vec<String>> {
    let program = find_program("notify-send", &ctx.repository.checkout)?;
    Some(desktop_argv(program.to_str()?, told))
}

fn desktop_argv(program: &str, told: &Notification) -> Vec<String> {
    let urgency = match told.kind {
        NotifyKind::Failed | NotifyKind::Blocked | NotifyKind::NeedsInput => "critical",
        _ => "normal",
    };
    let head = match &told.task {
        Some(task) => format!("{task}: {}", told.kind),
        None => format!("{}: {}", told.project, told.kind),
    };
    // The body is markup.
    let body = told.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut argv = vec![program.to_owned(), "--app-name=regatta".to_owned(), format!("--urgency={urgency}")];
    argv.extend(["--".to_owned(), head, body]);
    argv
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_core::time::Timestamp;

    #[test]
    fn the_desktop_gets_no_options_and_no_markup_from_a_task() {
        let mut told = Notification::idle(
            "--help",
            Timestamp::from_millis(0),
            [(regatta_core::state::StateName::Landed, 1)],
        );
        told.reason = Some("<b>&".into());
        let argv = desktop_argv("/usr/bin/notify-send", &told);
        assert_eq!(argv[3..], ["--", "--help: idle", "--help: idle: &lt;b&gt;&amp;"]);
    }
}
