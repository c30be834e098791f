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
pub const SECRETS: &[Secret] = &[
    secret(".ssh", "SSH keys"),
    secret(".aws", "AWS credentials"),
    secret(".azure", "Azure credentials"),
    secret(".config/gcloud", "Google Cloud credentials"),
    secret(".boto", "Google Cloud credentials"),
    secret(".oci", "Oracle Cloud credentials"),
    secret(".config/doctl", "DigitalOcean credentials"),
    secret(".config/hcloud", "Hetzner credentials"),
    secret(".fly", "Fly credentials"),
    secret(".config/netlify", "Netlify credentials"),
    secret(".local/share/com.vercel.cli", "Vercel credentials"),
    secret(".config/rclone", "credentials of rclone"),
    secret(".s3cfg", "S3 credentials"),
    secret(".gnupg", "GnuPG keys"),
    secret(".config/age", "age keys"),
    secret(".config/sops", "age keys"),
    secret(".kube", "Kubernetes credentials"),
    secret(".docker", "Docker credentials"),
    secret(".config/containers/auth.json", "registry credentials"),
    secret(".config/helm", "Helm credentials"),
    secret(".vault-token", "a Vault token"),
    secret(".terraform.d", "Terraform credentials"),
    Secret { path: ".terraformrc", what: "a Terraform token", only_with: Some("token") },
    secret(".pulumi", "Pulumi credentials"),
    secret(".config/gh", "GitHub credentials"),
    secret(".config/glab-cli", "GitLab credentials"),
    secret(".config/tea", "Gitea credentials"),
    secret(".config/hub", "GitHub credentials"),
    secret(".netrc", "passwords"),
    secret(".git-credentials", "git credentials"),
    secret(".config/git/credentials", "git credentials"),
    secret(".pypirc", "PyPI credentials"),
    secret(".config/pypoetry/auth.toml", "PyPI credentials"),
    Secret { path: ".config/pip/pip.conf", what: "a package index with a password", only_with: Some("@") },
    Secret { path: ".pip/pip.conf", what: "a package index with a password", only_with: Some("@") },
    Secret { path: ".npmrc", what: "an npm token", only_with: Some("_auth") },
    Secret { path: ".yarnrc.yml", what: "an npm token", only_with: Some("npmAuth") },
    secret(".cargo/credentials", "crates.io token"),
    secret(".cargo/credentials.toml", "crates.io token"),
    secret(".gem/credentials", "RubyGems credentials"),
    secret(".composer/auth.json", "Composer credentials"),
    secret(".config/composer/auth.json", "Composer credentials"),
    Secret { path: ".m2/settings.xml", what: "Maven passwords", only_with: Some("assword") },
    secret(".m2/settings-security.xml", "Maven passwords"),
    Secret { path: ".gradle/gradle.properties", what: "Gradle passwords", only_with: Some("assword") },
    Secret { path: ".nuget/NuGet/NuGet.Config", what: "NuGet passwords", only_with: Some("assword") },
    secret(".cache/huggingface/token", "a Hugging Face token"),
    secret(".kaggle", "Kaggle credentials"),
    secret(".databrickscfg", "Databricks credentials"),
    secret(".snowflake", "Snowflake credentials"),
    secret(".sentryclirc", "a Sentry token"),
    secret(".config/op", "1Password"),
    secret(".config/Bitwarden", "Bitwarden"),
    secret(".config/Bitwarden CLI", "Bitwarden"),
    secret(".config/keepassxc", "KeePassXC"),
    secret(".password-store", "passwords"),
    secret(".local/share/keyrings", "keyrings"),
    secret(".local/share/kwalletd", "KDE wallets"),
    secret(".mozilla", "Firefox profiles"),
    secret(".thunderbird", "Thunderbird profiles"),
    secret(".config/google-chrome", "Chrome profiles"),
    secret(".config/chromium", "Chromium profiles"),
    secret(".config/BraveSoftware", "Brave profiles"),
    secret(".config/microsoft-edge", "Edge profiles"),
    secret(".config/Slack", "Slack"),
    secret(".config/discord", "Discord"),
    secret(".config/Signal", "Signal"),
    secret(".bash_history", "shell history"),
    secret(".zsh_history", "shell history"),
    secret(".local/share/fish/fish_history", "shell history"),
    secret(".local/share/atuin", "shell history"),
    secret(".python_history", "history of Python"),
    secret(".psql_history", "history of psql"),
    secret(".mysql_history", "history of mysql"),
    secret(".pgpass", "database passwords"),
    Secret { path: ".my.cnf", what: "database passwords", only_with: Some("assword") },
    secret(".mylogin.cnf", "database passwords"),
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

/// Variables with credentials of the user's accounts: what is hidden as a file is no variable either. Keys of models are
/// not among them, because agents need theirs.
const CREDENTIALS: &[&str] = &[
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITHUB_PAT",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "GITLAB_TOKEN",
    "GITLAB_ACCESS_TOKEN",
    "CI_JOB_TOKEN",
    "BITBUCKET_TOKEN",
    "GITEA_TOKEN",
    "JIRA_API_TOKEN",
    "LINEAR_API_KEY",
    "NPM_TOKEN",
    "NPM_AUTH_TOKEN",
    "NODE_AUTH_TOKEN",
    "CARGO_REGISTRY_TOKEN",
    "TWINE_PASSWORD",
    "PYPI_TOKEN",
    "PYPI_API_TOKEN",
    "UV_PUBLISH_TOKEN",
    "UV_PUBLISH_PASSWORD",
    "GEM_HOST_API_KEY",
    "NUGET_API_KEY",
    "DOCKER_PASSWORD",
    "DOCKER_AUTH_CONFIG",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_PASSWORD",
    "ARM_CLIENT_SECRET",
    "ARM_ACCESS_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "DIGITALOCEAN_TOKEN",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "HCLOUD_TOKEN",
    "LINODE_TOKEN",
    "SCW_SECRET_KEY",
    "CLOUDFLARE_API_TOKEN",
    "CLOUDFLARE_API_KEY",
    "CF_API_TOKEN",
    "FLY_API_TOKEN",
    "FLY_ACCESS_TOKEN",
    "VERCEL_TOKEN",
    "NETLIFY_AUTH_TOKEN",
    "HEROKU_API_KEY",
    "RAILWAY_TOKEN",
    "RENDER_API_KEY",
    "PULUMI_ACCESS_TOKEN",
    "VAULT_TOKEN",
    "CONSUL_HTTP_TOKEN",
    "NOMAD_TOKEN",
    "OP_SERVICE_ACCOUNT_TOKEN",
    "BW_SESSION",
    "DOPPLER_TOKEN",
    "SOPS_AGE_KEY",
    "SOPS_AGE_KEY_FILE",
    "SSHPASS",
    "MYSQL_PWD",
    "REDISCLI_AUTH",
    "SLACK_TOKEN",
    "SLACK_BOT_TOKEN",
    "DISCORD_TOKEN",
    "TELEGRAM_BOT_TOKEN",
    "SENTRY_AUTH_TOKEN",
];

/// The beginnings and ends of names of such variables.
const CREDENTIAL_SHAPES: [(&str, &str); 4] = [
    ("TF_TOKEN_", ""),
    ("POETRY_PYPI_TOKEN_", ""),
    ("POETRY_HTTP_BASIC_", ""),
    ("CARGO_REGISTRIES_", "_TOKEN"),
];

/// Clouds through which an agent may reach its model: the variable that says so, and the beginnings of the names of
/// credentials that it then needs.
const MODEL_CLOUDS: [(&str, &[&str]); 3] = [
    ("CLAUDE_CODE_USE_BEDROCK", &["AWS_"]),
    ("CLAUDE_CODE_USE_VERTEX", &["GOOGLE_", "CLOUDSDK_"]),
    ("GOOGLE_GENAI_USE_VERTEXAI", &["GOOGLE_", "CLOUDSDK_"]),
];

/// Whether a variable holds credentials of the user's accounts. `is_set` tells whether another variable is set and not
/// switched off.
pub fn is_credential(name: &str, is_set: impl Fn(&str) -> bool) -> bool {
    let is_shaped = |(start, end): &(&str, &str)| name.starts_with(start) && name.ends_with(end);
    let is_known = CREDENTIALS.contains(&name) || CREDENTIAL_SHAPES.iter().any(is_shaped);
    let is_needed = MODEL_CLOUDS
        .iter()
        .any(|(switch, prefixes)| prefixes.iter().any(|prefix| name.starts_with(prefix)) && is_set(switch));
    is_known && !is_needed
}

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

    #[test]
    fn credentials_are_known_by_name_and_kept_where_they_lead_to_the_model() {
        let nowhere = |name: &str| is_credential(name, |_| false);
        let known = ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "TF_TOKEN_app", "CARGO_REGISTRIES_OURS_TOKEN"];
        let others =
            ["ANTHROPIC_API_KEY", "AWS_REGION", "CARGO_REGISTRIES_OURS_INDEX", "OPENAI_API_KEY", "PATH"];
        assert!(known.iter().all(|name| nowhere(name)));
        assert!(!others.iter().any(|name| nowhere(name)));
        let bedrock = |name: &str| is_credential(name, |name| name == "CLAUDE_CODE_USE_BEDROCK");
        assert!(!bedrock("AWS_SECRET_ACCESS_KEY") && bedrock("GITHUB_TOKEN"));
    }
}
