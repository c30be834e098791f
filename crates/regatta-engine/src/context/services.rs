//! What an engine works through: the store and its session there, the shims, the observers. Opened once; a reload keeps
//! it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_store::{Claim, SessionId, Store};

use crate::environment::Environment;
use crate::notice::{Notice, Notices};
use crate::process::{DoorSpec, Supervisor};

/// The services of one engine.
#[derive(Clone)]
pub struct Services {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its address, for agents.
    pub store_url: String,
    /// This engine's session in it.
    pub session: SessionId,
    /// Starts shims.
    pub supervisor: Supervisor,
    /// This program.
    pub regatta_exe: PathBuf,
    /// The channel to observers.
    pub notices: Notices,
}

/// Whether other machines may use the store at this address.
pub(super) fn is_shared(store_url: &str) -> bool {
    !store_url.starts_with("sqlite:")
}

impl Services {
    /// Sends a notice to observers, if there are any.
    pub fn tell(&self, notice: Notice) {
        self.notices.tell(notice);
    }

    /// The variables of an agent in a sandbox: they name its task and its door, and nothing that is secret. rookery's
    /// database is a file that does not exist.
    pub fn door_variables(&self, environment: &mut Environment, claim: &Claim, lane: &Path, door: &Path) {
        let (attempt, none) = (claim.attempt.to_string(), door.join("none.db"));
        for name in ["REGATTA_TOKEN", "REGATTA_STORE"] {
            environment.remove(name);
        }
        let pairs: [(&str, &OsStr); 8] = [
            ("REGATTA_DOOR", door.as_os_str()),
            ("REGATTA_TASK", OsStr::new(claim.task.as_str())),
            ("REGATTA_ATTEMPT", OsStr::new(&attempt)),
            ("REGATTA_LANE", lane.as_os_str()),
            ("ROOKERY_DB", none.as_os_str()),
            ("ROOKERY_PARCEL_ID", OsStr::new(claim.task.as_str())),
            ("ROOKERY_PARCEL_ATTEMPT", OsStr::new(&attempt)),
            ("ROOKERY_WORKTREE", lane.as_os_str()),
        ];
        for (name, value) in pairs {
            environment.set(name, value);
        }
        guard(environment, claim);
    }

    /// As whom the visitors of an attempt's door act. `project` is the repository, never the lane.
    pub fn door(&self, claim: &Claim, lane: &Path, token: &str, dir: &Path, project: &Path) -> DoorSpec {
        DoorSpec {
            dir: dir.to_owned(),
            task: claim.task.to_string(),
            attempt: claim.attempt,
            token: token.to_owned(),
            store: self.store_url.clone(),
            lane: lane.to_owned(),
            project: project.to_owned(),
            config: None,
        }
    }

    /// The variables with which an agent reports back, and those that rookery's tasks expect.
    pub fn worker_variables(&self, environment: &mut Environment, claim: &Claim, lane: &Path, token: &str) {
        let attempt = claim.attempt.to_string();
        let database = self.store_url.strip_prefix("sqlite:").unwrap_or(&self.store_url);
        let pairs: [(&str, &OsStr); 9] = [
            ("REGATTA_STORE", OsStr::new(&self.store_url)),
            ("REGATTA_TASK", OsStr::new(claim.task.as_str())),
            ("REGATTA_ATTEMPT", OsStr::new(&attempt)),
            ("REGATTA_TOKEN", OsStr::new(token)),
            ("REGATTA_LANE", lane.as_os_str()),
            ("ROOKERY_DB", OsStr::new(database)),
            ("ROOKERY_PARCEL_ID", OsStr::new(claim.task.as_str())),
            ("ROOKERY_PARCEL_ATTEMPT", OsStr::new(&attempt)),
            ("ROOKERY_WORKTREE", lane.as_os_str()),
        ];
        // An address with a password, or with a file that has one, is not passed to agents; they then report by files.
        let in_address = self
            .store_url
            .split_once("://")
            .is_some_and(|(_, rest)| rest.split('/').next().unwrap_or(rest).contains('@'));
        let by_name = self.store_url.contains("password=");
        let by_file = !regatta_store::credential_files(&self.store_url, |_| None).is_empty();
        let has_password = in_address || by_name || by_file;
        let is_address = |name: &str| matches!(name, "REGATTA_STORE" | "ROOKERY_DB");
        for (name, value) in pairs.into_iter().filter(|(name, _)| !(has_password && is_address(name))) {
            environment.set(name, value);
        }
        guard(environment, claim);
    }
}

/// The guard among parallel-orchestra's own hooks needs it.
fn guard(environment: &mut Environment, claim: &Claim) {
    if claim.spec.assets.is_some() && !claim.spec.read_only {
        environment.set("PO_WORKTREE_GUARD", OsStr::new("1"));
    }
}

/// The marker in the environment of everything an attempt starts.
pub(crate) fn run_id(claim: &Claim) -> String {
    format!("{}.{}.{}", claim.task, claim.attempt, claim.session)
}
