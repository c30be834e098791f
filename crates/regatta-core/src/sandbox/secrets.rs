//! Where a user's secrets are: the paths below the home directory that no agent may read.

/// A path below the home directory that is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The path, relative to the home directory.
    pub path: &'static str,
    /// What is in it, for people.
    pub what: &'static str,
    /// It is hidden only if its text contains this.
    pub only_with: Option<&'static str>,
}

const fn secret(path: &'static str, what: &'static str) -> Secret {
    Secret { path, what, only_with: None }
}

/// Everything hidden by default. Each entry can be shown again with `sandbox.show`.
pub const SECRETS: [Secret; 30] = [
    secret(".ssh", "SSH keys"),
    secret(".aws", "AWS credentials"),
    secret(".azure", "Azure credentials"),
    secret(".config/gcloud", "Google Cloud credentials"),
    secret(".gnupg", "GnuPG keys"),
    secret(".kube", "Kubernetes credentials"),
    secret(".docker", "Docker credentials"),
    secret(".config/gh", "GitHub credentials"),
    secret(".config/glab-cli", "GitLab credentials"),
    secret(".config/hub", "GitHub credentials"),
    secret(".netrc", "passwords"),
    secret(".git-credentials", "git credentials"),
    secret(".config/git/credentials", "git credentials"),
    secret(".pypirc", "PyPI credentials"),
    Secret { path: ".npmrc", what: "an npm token", only_with: Some("_auth") },
    secret(".cargo/credentials", "crates.io token"),
    secret(".cargo/credentials.toml", "crates.io token"),
    secret(".config/op", "1Password"),
    secret(".password-store", "passwords"),
    secret(".local/share/keyrings", "keyrings"),
    secret(".mozilla", "Firefox profiles"),
    secret(".config/google-chrome", "Chrome profiles"),
    secret(".config/chromium", "Chromium profiles"),
    secret(".config/BraveSoftware", "Brave profiles"),
    secret(".bash_history", "shell history"),
    secret(".zsh_history", "shell history"),
    secret(".local/share/fish/fish_history", "shell history"),
    secret(".pgpass", "database passwords"),
    secret(".postgresql", "PostgreSQL keys"),
    secret(".config/regatta", "Regatta's own settings"),
];

/// Directories of `/run` that stay visible: resolvers of names, and the system of NixOS.
pub const RUN_SHOWN: [&str; 6] = [
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
];

/// Variables that lead to sockets, displays and clusters outside. What is confined does not get them.
pub const REMOVED_VARIABLES: [&str; 23] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "ICEAUTHORITY",
    "SESSION_MANAGER",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "KUBECONFIG",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
    "PULSE_SERVER",
    "TMUX",
    "TMUX_TMPDIR",
    "NOTIFY_SOCKET",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_plain_paths_below_the_home() {
        for secret in SECRETS {
            assert!(!secret.path.starts_with('/') && !secret.path.contains(".."), "{}", secret.path);
            assert!(!secret.path.ends_with('/') && !secret.what.is_empty(), "{}", secret.path);
        }
    }
}
