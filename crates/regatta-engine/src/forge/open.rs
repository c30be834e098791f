//! Which forge a repository belongs to.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::Github;
use regatta_core::forge::remote::{RemoteAddress, without_password};
use regatta_core::forge::{ForgeHost, Slug};

use super::Forge;
use super::github::{GitHub, Names};
use super::host::Host;
use super::wire::{GhWire, Wire};
use crate::environment::Environment;
use crate::git::{GitError, Repo, Work, limited};
use crate::hub;

/// The remote of the repository that a fork was made from, by convention.
const UPSTREAM: &str = "upstream";
/// The directory of what may be forgotten, below the state directory.
const DIR: &str = "forge";
/// Time limit of `ssh -G`, which asks no other machine.
const SSH_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no forge.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no remote.
    #[error("the repository has no remote, so it is on no forge")]
    NoRemote,
    /// The remote is somewhere else.
    #[error("the remote {remote} ({url}) is not on GitHub as far as Regatta knows")]
    Unknown {
        /// Its name.
        remote: String,
        /// Its address, without a password.
        url: String,
    },
    /// The settings name one host, and the remote is on another.
    #[error("`github.host` is {said}, but the remote {remote} is on {found}")]
    TwoHosts {
        /// The host of the settings.
        said: ForgeHost,
        /// The remote.
        remote: String,
        /// The host of the remote.
        found: ForgeHost,
    },
    /// Git could not be asked.
    #[error("could not {0}")]
    Git(#[from] GitError),
}

impl OpenError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            OpenError::NoRemote => "add it: git remote add origin https://github.com/OWNER/NAME.git",
            OpenError::Unknown { .. } => {
                "set `github.host`, and `github.repo` if the address does not name the repository"
            }
            OpenError::TwoHosts { .. } => "correct `github.host`, or the address of the remote",
            OpenError::Git(_) => "run `regatta doctor`",
        }
    }
}

/// The forge of a repository, as its remotes and the settings say. Asks no other machine.
pub fn open(
    repo: &Repo,
    work: &Work,
    github: &Github,
    environment: &Environment,
) -> Result<Arc<dyn Forge>, OpenError> {
    let wire = GhWire::new(environment, &github.token_command, &repo.root);
    Ok(open_with(repo, work, github, environment, Arc::new(wire))?)
}

/// The same over another wire.
pub fn open_with(
    repo: &Repo,
    work: &Work,
    github: &Github,
    environment: &Environment,
    wire: Arc<dyn Wire>,
) -> Result<Arc<GitHub>, OpenError> {
    let found = find(work, github, environment)?;
    let dir = repo.state_dir.join(DIR);
    let host = Arc::new(Host::new(found.host, wire, Some(&dir), github.reserve));
    Ok(Arc::new(GitHub::new(host, found.names, github.trust)))
}

/// A host, and the repositories on it.
pub(crate) struct Found {
    pub(crate) host: ForgeHost,
    pub(crate) names: Names,
}

/// What the remotes and the settings say.
pub(crate) fn find(work: &Work, github: &Github, environment: &Environment) -> Result<Found, OpenError> {
    let remote = hub::default_remote(work)?.ok_or(OpenError::NoRemote)?;
    let url = hub::url_of(work, &remote)?.ok_or(OpenError::NoRemote)?;
    // As written first: `insteadOf` may lead to a mirror, or make the host known.
    let replaced = address(work, &remote)?;
    let parsed: Vec<RemoteAddress> =
        [&url, &replaced].into_iter().filter_map(|url| RemoteAddress::parse(url).ok()).collect();
    let known = |host: &ForgeHost| host.is_known_github() || github.host.as_ref() == Some(host);
    let mut origin = parsed.iter().find(|address| known(&address.host)).cloned();
    if origin.is_none() {
        origin = parsed.iter().filter(|address| address.ssh).find_map(|address| {
            let host = ssh_host(&address.host, environment).filter(known)?;
            Some(RemoteAddress { host, ..address.clone() })
        });
    }
    let Some(origin) = origin else {
        return match (&github.host, &github.repo, parsed.first()) {
            // Said outright: whatever the address is.
            (Some(host), Some(repo), None) => Ok(Found {
                host: host.clone(),
                names: Names { head: repo.clone(), base: Some(repo.clone()) },
            }),
            (Some(said), _, Some(address)) => {
                Err(OpenError::TwoHosts { said: said.clone(), remote, found: address.host.clone() })
            }
            _ => Err(OpenError::Unknown { remote, url: without_password(&url) }),
        };
    };
    let base = match &github.repo {
        Some(repo) => Some(repo.clone()),
        None => upstream(work, &remote, &origin.host, environment)?,
    };
    Ok(Found { host: origin.host, names: Names { head: origin.slug, base } })
}

/// What git makes of a remote's address: settings may replace its beginning.
fn address(work: &Work, remote: &str) -> Result<String, GitError> {
    work.bare().args(["ls-remote", "--get-url", "--", remote]).text()
}

/// The repository of the remote `upstream`, if it is on the same host.
fn upstream(
    work: &Work,
    origin: &str,
    host: &ForgeHost,
    environment: &Environment,
) -> Result<Option<Slug>, OpenError> {
    if origin == UPSTREAM {
        return Ok(None);
    }
    let Some(url) = hub::url_of(work, UPSTREAM)? else { return Ok(None) };
    let urls = [url, address(work, UPSTREAM)?];
    Ok(urls.iter().filter_map(|url| RemoteAddress::parse(url).ok()).find_map(|address| {
        let alias = || address.ssh && ssh_host(&address.host, environment).as_ref() == Some(host);
        (address.host == *host || alias()).then_some(address.slug.clone())
    }))
}

/// The host that ssh means by a name: its settings have aliases.
fn ssh_host(name: &ForgeHost, environment: &Environment) -> Option<ForgeHost> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new("ssh");
    command.args(["-G", "--", name.as_str()]).current_dir("/").process_group(0).env_clear();
    command.envs(environment.clone().into_vars());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = limited::bounded_output(command.spawn().ok()?, SSH_LIMIT, None, 1 << 20).ok()??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("hostname "))?;
    let host = ForgeHost::parse(host.trim()).ok()?;
    Some(if host.as_str() == "ssh.github.com" { ForgeHost::github() } else { host })
}
