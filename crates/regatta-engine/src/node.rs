//! This machine as a node: its id, its name, and where its settings are.
//!
//! A node is one user's Regatta on one machine. Its id is random and made once, in the user's own state; its name is for
//! people, and no decision depends on it.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use regatta_core::config::parse_node;
use regatta_core::node::node_word;

use crate::files::{kept_id, user_state};

/// The id of this node; `None` if the user's state cannot be written.
pub fn id() -> Option<String> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    ID.get_or_init(|| {
        let dir = user_state(|name| std::env::var_os(name).map(PathBuf::from))?;
        kept_id(&dir, "node").ok()
    })
    .clone()
}

/// Where the id of this node is kept.
pub fn id_file() -> Option<PathBuf> {
    Some(user_state(|name| std::env::var_os(name).map(PathBuf::from))?.join("node"))
}

/// The name under which this node is known in the store, if another node has the wanted one.
static CALLED: Mutex<Option<String>> = Mutex::new(None);

/// This node is known by this name.
pub(crate) fn is_called(name: &str) {
    *CALLED.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
}

/// The name of this node: the one in `node.yaml`, else the host name. An engine uses the name that the store knows.
pub fn name() -> String {
    let called = CALLED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    called.unwrap_or_else(wanted_name)
}

/// The name that this node asks for.
pub(crate) fn wanted_name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let text = settings_file().and_then(|path| std::fs::read_to_string(path).ok());
        let given = text.and_then(|text| parse_node("node.yaml", &text).0.name);
        given.unwrap_or_else(host_name)
    })
    .clone()
}

/// The host name, as a node name.
pub fn host_name() -> String {
    node_word(&rustix::system::uname().nodename().to_string_lossy())
}

/// Where `node.yaml` is: `$XDG_CONFIG_HOME/regatta`, else `~/.config/regatta`. It may not exist.
pub fn settings_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let dir = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(dir.join("regatta/node.yaml"))
}
