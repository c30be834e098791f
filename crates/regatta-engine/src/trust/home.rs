//! The directory for this user's state that belongs to no repository.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use super::TrustError;
use crate::files::user_state;
use crate::git::{GitEnv, io};

/// `$XDG_STATE_HOME/regatta`, else `~/.local/state/regatta`. It may not exist yet.
pub(super) fn path(env: &GitEnv) -> Result<PathBuf, TrustError> {
    user_state(|name| env.get(name).map(PathBuf::from)).ok_or_else(|| {
        let text = "neither HOME nor XDG_STATE_HOME names a directory, so Regatta cannot look up what you trust, or record it";
        TrustError::NoHome(text.to_owned())
    })
}

/// The same, created if it is missing, private to this user.
pub(super) fn make(env: &GitEnv) -> Result<PathBuf, TrustError> {
    let dir = path(env)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error| {
        TrustError::NoHome(format!(
            "cannot record what you trust in {}: {error}; set XDG_STATE_HOME to a directory that you can write",
            dir.display()
        ))
    })?;
    let meta = fs::metadata(&dir).map_err(io("look at", &dir))?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(TrustError::Refused {
            message: format!("{} belongs to another user", dir.display()),
            hint: "set XDG_STATE_HOME to a directory of your own".to_owned(),
        });
    }
    if meta.mode() & 0o077 != 0 {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(io("protect", &dir))?;
    }
    Ok(dir)
}
