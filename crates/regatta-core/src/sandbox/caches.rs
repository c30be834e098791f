//! The caches of package managers: one directory per project, shared by its lanes and never the user's own.
//!
//! A cache that an agent can write and the user's own builds read would be a way out: a changed package source or a
//! start-up script there would run outside.

use std::path::{Path, PathBuf};

/// Variables that choose a cache, with the directory below the project's cache.
pub const CACHES: [(&str, &str); 11] = [
    ("CARGO_HOME", "cargo"),
    ("npm_config_cache", "npm"),
    ("npm_config_store_dir", "pnpm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("GOMODCACHE", "go-mod"),
    ("GOCACHE", "go-build"),
    ("GRADLE_USER_HOME", "gradle"),
    ("SCCACHE_DIR", "sccache"),
    ("CCACHE_DIR", "ccache"),
];

/// Variables that lead to a cache of the user's that is only read, with its usual place below the home directory.
pub const READ_CACHES: [(&str, &str); 2] =
    [("GRADLE_RO_DEP_CACHE", ".gradle/caches"), ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright")];

/// The user's own caches, relative to the home directory, for `caches: user`.
pub const USER_CACHES: [&str; 13] = [
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".local/share/pnpm",
    ".cache/yarn",
    ".cache/pip",
    ".cache/uv",
    ".cache/go-build",
    "go/pkg/mod",
    ".gradle/caches",
    ".m2/repository",
    ".cache/sccache",
    ".cache/ccache",
];

/// The variables for caches below `root`.
pub fn variables(root: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    CACHES.into_iter().map(move |(name, dir)| (name, root.join(dir)))
}
