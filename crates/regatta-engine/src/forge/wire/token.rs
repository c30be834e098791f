//! A token from a command of the user's, such as one that speaks for a GitHub App.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::environment::Environment;

/// Time limit of the command.
const LIMIT: Duration = Duration::from_secs(30);
/// The shortest time between two runs of it.
const AGAIN: Duration = Duration::from_secs(60);

/// The command, and the token that it printed last. The token is in memory only.
pub(crate) struct TokenCommand {
    argv: Vec<String>,
    environment: Environment,
    root: PathBuf,
    known: Mutex<Known>,
    pub(super) again: Duration,
}

#[derive(Default)]
struct Known {
    token: Option<String>,
    asked: Option<Instant>,
}

impl TokenCommand {
    pub(crate) fn new(argv: Vec<String>, environment: Environment, root: PathBuf) -> Self {
        Self { argv, environment, root, known: Mutex::new(Known::default()), again: AGAIN }
    }

    /// The token. Runs the command if there is none.
    pub(crate) async fn token(&self) -> Result<String, String> {
        if let Some(token) = self.known() {
            return Ok(token);
        }
        let program = Path::new(&self.argv[0]);
        let is_path = self.argv[0].contains('/');
        let mut command = Command::new(if is_path { self.root.join(program) } else { program.to_owned() });
        command.args(&self.argv[1..]).current_dir(&self.root).process_group(0);
        command.env_clear().envs(self.environment.clone().into_vars());
        self.lock().asked = Some(Instant::now());
        let output = super::run(command, None, LIMIT).await.map_err(|error| match error {
            super::WireError::Missing => format!("names {:?}, which is not installed", self.argv[0]),
            other => format!("failed: {other}"),
        })?;
        if !output.status.success() {
            // What it printed may contain a secret.
            return Err(format!("ended with {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let token = text.trim();
        let is_token =
            !token.is_empty() && token.len() <= 4096 && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(if token.is_empty() {
                "printed nothing"
            } else {
                "printed something else than a token"
            }
            .to_owned());
        }
        self.lock().token = Some(token.to_owned());
        Ok(token.to_owned())
    }

    /// Forgets a token that was not accepted. False if the command ran a short time ago: its token is wrong then.
    pub(crate) fn forget(&self) -> bool {
        let mut known = self.lock();
        let recent = known.asked.is_some_and(|asked| asked.elapsed() < self.again);
        if !recent {
            known.token = None;
        }
        !recent
    }

    /// The token that was printed last.
    pub(crate) fn known(&self) -> Option<String> {
        self.lock().token.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
