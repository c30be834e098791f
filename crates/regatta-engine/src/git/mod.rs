//! Git, as Regatta runs it.
//!
//! Invariant: nothing an agent writes (a hook, a filter, a setting, a ref name, a file name) is ever executed by a
//! git process that Regatta starts.
//!
//! Two kinds of command keep it. Those that touch *content* (status, update-index, write-tree, checkout, merge-tree) go
//! through [`Work`]: Regatta's own git directory, whose configuration is a [`TrustSnapshot`] of the user's, taken
//! before any agent ran. Those that touch *refs* go to the real git directory with hooks, fsmonitor and maintenance
//! switched off. Values chosen by others follow `--`, or are passed as full object ids or on stdin.

mod command;
mod complaint;
mod config;
mod delete_branch;
mod error;
mod exclude;
mod files;
mod find;
mod history;
mod initialise;
mod keeps;
pub(crate) mod limited;
mod locks;
mod look;
mod probe;
mod provenance;
mod ref_edits;
mod ref_files;
mod refs;
mod repo;
mod salvages;
mod stash;
mod status;
mod transfer;
mod trust;
mod trust_settings;
mod trusted_hooks;
mod version;
mod work;
mod worktrees;

pub(crate) use crate::files::unique_suffix;
pub use command::GitEnv;
pub(crate) use command::{AS_STORED, GitCommand, Ran, jittered};
pub(crate) use complaint::{Complaint, new_objects};
pub use delete_branch::DeletedBranch;
pub use error::GitError;
pub(crate) use error::gigabytes;
pub(crate) use files::{
    FileLock, absent_is_none, copy_index, io, read_if_plain, read_plain, replace_file, replace_link,
};
pub use history::LoggedCommit;
pub(crate) use history::{Entry, Shift, paths};
pub use initialise::{HistoryLine, clone_repository, initialise};
pub(crate) use keeps::KEEP;
pub(crate) use limited::Lookout;
pub use locks::StaleLock;
pub(crate) use locks::{clear_in_lane, locks_below};
pub use look::{DiffStyle, installed};
pub(crate) use probe::{Quarantine, merges, quoted, touched};
pub use provenance::FileOrigin;
pub(crate) use provenance::is_state;
pub(crate) use ref_files::RefList;
pub use refs::{BranchTip, Expect, RefEdit, RefOutcome};
pub(crate) use refs::{
    HeadRef, MAX_PACKED, check_ref_name, head as load_head, head_in, head_oid, oid_line, read_head_in,
};
pub use regatta_core::oid::Oid;
pub use repo::{Head, Identity, Repo};
pub(crate) use salvages::{SALVAGE, save_commit};
pub use salvages::{Salvage, salvages, salvages_elsewhere, salvages_of};
pub(crate) use stash::{Stash, parse as parse_stashes, parse_log as parse_stash_log};
pub use status::{Change, ChangeKind, Status};
pub(crate) use transfer::Transfer;
pub use trust::{Difference, TrustSnapshot};
pub(crate) use trust_settings::named_files;
pub use trusted_hooks::{COMMIT_HOOKS, HookSource};
pub(crate) use trusted_hooks::{copy as copy_hooks, fingerprint as hook_fingerprint, is_executable};
pub use version::{GitVersion, MIN_GIT};
pub(crate) use work::CommandPlace;
pub use work::Work;
pub use worktrees::{Checkout, Operation};
pub(crate) use worktrees::{LANE_PREFIX, checkout_path, git_dir_of, normal as normal_path};
