//! The real agent command lines in a [`World`]: installed by `scripts/agents/install`, connected only to our own
//! [`Api`].
//!
//! They get a scratch home, keys that open nothing, and no telemetry. The API is also their proxy, which refuses and
//! records every request to another host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;

use crate::api::Api;
use crate::repo::write;
use crate::world::World;

/// The variable that names the directory of installed agents.
const PROGRAMS_VAR: &str = "REGATTA_TEST_AGENTS";

/// A key that opens nothing.
pub const KEY: &str = "sk-ant-nothing-behind-it";

/// `regatta.yaml`, to which a test may add.
pub const SETTINGS: &str = "\
version: 1
land: { auto: true }
agents:
  claude: { model: claude-sonnet-4-5 }
  claude-newest: { kind: claude, exe: claude-newest, model: claude-sonnet-4-5 }
  codex: { model: gpt-5.5 }
  gemini: { model: gemini-2.5-pro }
  opencode: { model: anthropic/claude-sonnet-4-5 }
";

/// The directory of the agents' programs, which are installed if missing.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        if let Some(dir) = std::env::var_os(PROGRAMS_VAR) {
            let dir = PathBuf::from(dir);
            for program in ["claude", "claude-newest", "codex", "gemini", "opencode"] {
                assert!(
                    dir.join(program).exists(),
                    "{PROGRAMS_VAR} names {}, where no {program} is: run scripts/agents/install",
                    dir.display()
                );
            }
            return dir;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/agents/install");
        let output = Command::new(&script).output().expect("scripts/agents/install can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{said}\nthese tests drive the real agents: run scripts/agents/install"
        );
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// A world with the real agents, and with `api` as their models. `exe` is `env!("CARGO_BIN_EXE_regatta")`.
pub fn world(exe: &str, api: &Api) -> World {
    let mut world = World::new(exe);
    let home = world.outside("home");
    let path = std::env::var("PATH").unwrap_or_default();
    world.env("PATH", format!("{}:{}:{path}", home.join("bin").display(), programs().display()));
    let url = api.url();
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        world.env(proxy, &url).env(&proxy.to_ascii_lowercase(), &url);
    }
    world.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    claude(&mut world, &url);
    codex(&mut world, &url, &home);
    gemini(&mut world, &url, &home);
    opencode(&mut world, &url, &home);
    world.config(SETTINGS);
    world
}

fn claude(world: &mut World, url: &str) {
    world
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_ERROR_REPORTING", "1");
}

fn codex(world: &mut World, url: &str, home: &Path) {
    // If bubblewrap is installed, codex lets it start codex under this name. Codex would create the link itself, but
    // not in a home below the directory for temporary files.
    let alias = home.join("bin/codex-linux-sandbox");
    if let Some(binary) = codex_binary() {
        std::fs::create_dir_all(home.join("bin")).expect("the home can be written");
        std::os::unix::fs::symlink(binary, alias).expect("the home can be written");
    }
    world.env("CODEX_HOME", home.join(".codex")).env("CODEX_API_KEY", KEY);
    codex_home(&home.join(".codex"), url);
}

/// The native program behind the script that npm installs.
fn codex_binary() -> Option<PathBuf> {
    let packages = programs().join("codex").canonicalize().ok()?;
    let packages = packages.ancestors().find(|dir| dir.ends_with("@openai"))?.to_owned();
    let below = |dir: PathBuf| dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let vendors = below(packages).map(|package| package.join("vendor"));
    vendors.flat_map(below).map(|target| target.join("bin/codex")).find(|binary| binary.is_file())
}

/// Sets up a directory as a home of codex.
pub fn codex_home(dir: &Path, url: &str) {
    write(
        &dir.join("config.toml"),
        format!(
            "openai_base_url = \"{url}/v1\"\ncheck_for_update_on_startup = false\n\
             [analytics]\nenabled = false\n[features]\nplugins = false\n"
        ),
    );
}

fn gemini(world: &mut World, url: &str, home: &Path) {
    world
        .env("GOOGLE_GEMINI_BASE_URL", url)
        .env("GEMINI_API_KEY", KEY)
        .env("GEMINI_TELEMETRY_ENABLED", "false");
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
    });
    write(&home.join(".gemini/settings.json"), settings.to_string());
}

fn opencode(world: &mut World, url: &str, home: &Path) {
    world
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
        .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1");
    let settings = json!({
        "autoupdate": false,
        "share": "disabled",
        "small_model": "anthropic/claude-sonnet-4-5",
        "provider": {"anthropic": {"options": {"baseURL": format!("{url}/v1"), "apiKey": KEY}}},
    });
    // The world's home is also where settings are searched.
    write(&home.join("opencode/opencode.json"), settings.to_string());
}
