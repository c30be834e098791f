//! How a request reaches a forge: `gh api`, and nothing else of `gh`.
//!
//! `gh` brings the user's login, hosts, proxies and certificates. It is started outside every repository with an
//! environment that is built here, gets its body on standard input, and is ended with everything it started after a
//! time limit. Its status line decides, not its exit code: that is 1 for a 304 too.

mod answer;
mod token;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use regatta_core::forge::ForgeHost;
use regatta_core::hex::hex;
use regatta_core::plain::clean_line;
use sha2::{Digest as _, Sha256};

use crate::environment::Environment;
use crate::git::limited;

pub use answer::Answer;
pub(crate) use token::TokenCommand;

/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest answer.
const LONGEST: usize = 16 << 20;

/// The variables that `gh` gets, if they are set.
const PASSED_ON: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "GH_CONFIG_DIR",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "SYSTEMROOT",
];

/// Variables that name a token.
pub(crate) const TOKENS: [&str; 4] =
    ["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

/// What every `gh` gets: no colours, no questions.
const FIXED: [(&str, &str); 4] = [
    ("NO_COLOR", "1"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_SPINNER_DISABLED", "1"),
];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `GET`, `POST`, `PATCH`, `PUT`, `DELETE`.
    pub method: &'static str,
    /// The path, with every value in it encoded, or `graphql`.
    pub path: String,
    /// The body, as JSON.
    pub body: Option<String>,
    /// The version of the answer that is already known.
    pub etag: Option<String>,
}

impl Call {
    /// Reads something.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), body: None, etag: None }
    }

    /// Sends something.
    pub fn send(method: &'static str, path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self { method, path: path.into(), body: Some(body.to_string()), etag: None }
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The program is not installed.
    #[error("gh is not installed")]
    Missing,
    /// There is no login for this host.
    #[error("gh has no login for {0}")]
    NoLogin(ForgeHost),
    /// The command that prints a token failed.
    #[error("github.token_command {0}")]
    Token(String),
    /// There was no answer that could be read.
    #[error("{0}")]
    Failed(String),
}

/// A way to a forge.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Sends one request. An answer with any status is an answer.
    async fn ask(&self, host: &ForgeHost, call: &Call) -> Result<Answer, WireError>;

    /// The token was not accepted: whether the next request would use another one.
    async fn renew(&self) -> bool;

    /// A digest that changes with the login: what was read with another one is not valid any more.
    fn login_digest(&self) -> String;
}

/// `gh api`.
pub struct GhWire {
    /// A name on the path, or a path.
    name: PathBuf,
    environment: Vec<(OsString, OsString)>,
    token: Option<TokenCommand>,
    limit: Duration,
}

impl GhWire {
    /// With the user's environment; `root` is where `token_command` runs.
    pub fn new(environment: &Environment, token_command: &[String], root: &Path) -> Self {
        let passed =
            PASSED_ON.iter().filter_map(|name| Some(((*name).into(), environment.value(name)?.to_owned())));
        let token = (!token_command.is_empty())
            .then(|| TokenCommand::new(token_command.to_vec(), environment.clone(), root.to_owned()));
        Self { name: PathBuf::from("gh"), environment: passed.collect(), token, limit: LIMIT }
    }

    /// The same through another program, which is a name on the path, or a path.
    #[must_use]
    pub fn through(mut self, program: &str) -> Self {
        self.name = PathBuf::from(program);
        self
    }

    /// The same with another time limit of a request, and another time between two runs of `token_command`, for tests.
    #[doc(hidden)]
    pub fn within(mut self, limit: Duration, again: Duration) -> Self {
        self.limit = limit;
        if let Some(token) = &mut self.token {
            token.again = again;
        }
        self
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// The path of `gh`. Relative entries of the path are ignored, as for git.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        if self.name.components().count() > 1 {
            let path = std::path::absolute(&self.name).ok()?;
            return crate::git::is_executable(&path).then_some(path);
        }
        let places = std::env::split_paths(self.variable("PATH")?).filter(|dir| dir.is_absolute());
        places.map(|dir| dir.join(&self.name)).find(|gh| crate::git::is_executable(gh))
    }

    /// What `gh --version` prints first.
    pub(crate) async fn version(&self) -> Option<String> {
        let mut command = self.command(&[OsString::from("--version")], None)?;
        command.stdin(Stdio::null());
        let output = run(command, None, Duration::from_secs(10)).await.ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(clean_line).filter(|line| !line.is_empty())
    }

    /// A start of `gh`, without what it reads and prints.
    fn command(&self, args: &[OsString], token: Option<&str>) -> Option<Command> {
        let mut command = Command::new(self.program()?);
        command.args(args).current_dir("/").process_group(0).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).envs(FIXED);
        if let Some(token) = token {
            for name in TOKENS {
                command.env_remove(name);
            }
            command.env("GH_TOKEN", token).env("GH_ENTERPRISE_TOKEN", token);
        }
        Some(command)
    }
}

#[async_trait]
impl Wire for GhWire {
    async fn ask(&self, host: &ForgeHost, call: &Call) -> Result<Answer, WireError> {
        let token = match &self.token {
            Some(command) => Some(command.token().await.map_err(WireError::Token)?),
            None => None,
        };
        let mut args: Vec<OsString> = ["api", "--hostname", host.as_str(), "-i", "-X", call.method]
            .iter()
            .map(OsString::from)
            .collect();
        args.extend(["-H", "Accept: application/vnd.github+json"].map(OsString::from));
        args.extend(["-H", "X-GitHub-Api-Version: 2022-11-28"].map(OsString::from));
        if let Some(etag) = &call.etag {
            args.extend(["-H".into(), OsString::from(format!("If-None-Match: {etag}"))]);
        }
        if call.body.is_some() {
            args.extend(["--input", "-"].map(OsString::from));
        }
        args.push(OsString::from(&call.path));
        let command = self.command(&args, token.as_deref()).ok_or(WireError::Missing)?;
        let output = run(command, call.body.clone(), self.limit).await?;
        if output.stdout.len() > LONGEST {
            return Err(WireError::Failed("its answer is too long".to_owned()));
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        match Answer::parse(&output.stdout) {
            Some(answer) if stderr.contains("unexpected EOF") && answer.status < 300 => {
                Err(WireError::Failed("its answer was cut off".to_owned()))
            }
            Some(answer) => Ok(answer),
            None if lacks_login(&stderr) => Err(WireError::NoLogin(host.clone())),
            None => Err(WireError::Failed(last_line(&stderr))),
        }
    }

    async fn renew(&self) -> bool {
        match &self.token {
            Some(command) => command.forget(),
            None => false,
        }
    }

    fn login_digest(&self) -> String {
        let mut hash = Sha256::new();
        for name in TOKENS {
            hash.update(self.variable(name).unwrap_or_default().as_encoded_bytes());
            hash.update([0]);
        }
        let own = |name: &str| self.variable(name).map(PathBuf::from);
        let dir = own("GH_CONFIG_DIR")
            .or_else(|| Some(own("XDG_CONFIG_HOME")?.join("gh")))
            .or_else(|| Some(own("HOME")?.join(".config/gh")));
        let hosts = dir.and_then(|dir| std::fs::read(dir.join("hosts.yml")).ok()).unwrap_or_default();
        hash.update(&hosts);
        if let Some(command) = &self.token {
            hash.update(command.known().unwrap_or_default());
        }
        hex(&hash.finalize()[..8])
    }
}

/// Whether `gh` says that nobody is logged in.
fn lacks_login(stderr: &str) -> bool {
    ["gh auth login", "set the GH_TOKEN", "authentication required"]
        .iter()
        .any(|words| stderr.contains(words))
}

/// The last line of what a program complained about, without a token.
fn last_line(stderr: &str) -> String {
    let line =
        stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("gh printed nothing");
    clean_line(line).chars().take(300).collect()
}

/// Runs a program to its end, or ends it with everything it started.
async fn run(
    mut command: Command,
    input: Option<String>,
    limit: Duration,
) -> Result<std::process::Output, WireError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let ran = tokio::task::spawn_blocking(move || -> std::io::Result<Option<std::process::Output>> {
        let mut child = command.spawn()?;
        if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
            // A thread: a body may be longer than a pipe. It ends with the program, which holds the other end.
            std::thread::spawn(move || pipe.write_all(input.as_bytes()).ok());
        }
        limited::bounded_output(child, limit, None, LONGEST)
    });
    match ran.await {
        Ok(Ok(Some(output))) => Ok(output),
        Ok(Ok(None)) => Err(WireError::Failed(format!("no answer within {} s", limit.as_secs()))),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Err(WireError::Missing),
        Ok(Err(error)) => Err(WireError::Failed(format!("gh could not be started: {error}"))),
        Err(error) => Err(WireError::Failed(format!("gh was given up: {error}"))),
    }
}
