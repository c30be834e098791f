//! Which git settings Regatta's own git obeys, and which of them can run a program or send work elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use super::Repo;
use super::config::{self, Setting};

/// The settings `core.*` that belong to one checkout and its git directory.
const OF_ONE_CHECKOUT: [&str; 10] = [
    "worktree",
    "bare",
    "hookspath",
    "fsmonitor",
    "splitindex",
    "untrackedcache",
    "sparsecheckout",
    "sparsecheckoutcone",
    "logallrefupdates",
    "repositoryformatversion",
];

/// Whether a setting is meaningful and harmless in our own git directory.
fn is_copied(setting: &Setting) -> bool {
    let (section, subsection, name) = setting.parts();
    match section {
        // These name things in another place, or would start something in the background.
        "include" | "includeif" | "alias" | "gc" | "maintenance" | "trace2" | "safe" | "branch" | "pager" => {
            false
        }
        "index" | "checkout" | "status" | "fetch" | "receive" | "uploadpack" | "feature" => false,
        "extensions" => matches!(name, "objectformat" | "partialclone"),
        "core" => {
            !OF_ONE_CHECKOUT.contains(&name) && !matches!(name, "pager" | "editor" | "fsync" | "gitproxy")
        }
        "submodule" => name == "url",
        "lfs" => !(subsection.is_none() && name == "storage"),
        _ => true,
    }
}

pub(super) fn private_config(repo: &Repo, settings: &[Setting]) -> Vec<u8> {
    let own = |key: &str, value: &str| Setting {
        scope: "local".into(),
        key: key.into(),
        value: Some(value.as_bytes().to_vec()),
    };
    let copied = settings.iter().filter(|setting| is_copied(setting));
    let copied: Vec<Cow<'_, Setting>> = copied.filter_map(|setting| in_checkout(repo, setting)).collect();
    let extended = copied.iter().any(|setting| setting.key.starts_with("extensions."));
    // Large files must be stored where the user's own `git lfs push` looks for them.
    let storage = lfs_storage(repo, lfs_path(settings).as_deref());
    let fixed = [
        own("core.repositoryformatversion", if extended { "1" } else { "0" }),
        own("core.bare", "false"),
        own("core.hookspath", "/dev/null"),
        own("core.fsmonitor", "false"),
        own("core.splitindex", "false"),
        own("core.logallrefupdates", "false"),
        own("gc.auto", "0"),
        own("maintenance.auto", "false"),
        own("lfs.storage", &storage.to_string_lossy()),
    ];
    config::render(fixed.iter().chain(copied.iter().map(Cow::as_ref)))
}

/// Whether git runs the value of this setting while it reads or writes content.
fn is_run(setting: &Setting) -> bool {
    let (section, _, name) = setting.parts();
    match section {
        "filter" => matches!(name, "clean" | "smudge" | "process"),
        "diff" => matches!(name, "external" | "command" | "textconv"),
        "merge" => name == "driver",
        _ => false,
    }
}

/// The setting as Regatta's own git obeys it. Git runs commands in the lane, where a file of the repository is what the
/// agent made of it: a filter runs in the user's checkout instead, and what needs the lane's files is left out.
fn in_checkout<'a>(repo: &Repo, setting: &'a Setting) -> Option<Cow<'a, Setting>> {
    if !is_run(setting) || named_files(&repo.toplevel, &setting.text()).is_empty() {
        return Some(Cow::Borrowed(setting));
    }
    let (section, _, name) = setting.parts();
    let checkout = repo.toplevel.to_str().filter(|_| section == "filter" && name != "process")?;
    let command = format!("cd '{}' && {}", checkout.replace('\'', "'\\''"), setting.text());
    Some(Cow::Owned(Setting { value: Some(command.into_bytes()), ..setting.clone() }))
}

/// The files of the checkout that a command names.
pub(crate) fn named_files(checkout: &Path, command: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(|c: char| "\"'();&|<>!`".contains(c)).to_owned();
    let words = command.split_whitespace().map(bare).enumerate();
    let named = words.filter_map(|(n, word)| {
        let path = word.trim_start_matches("./");
        // A first word without a slash is looked for on the path.
        let may_be = (n > 0 || word.contains('/')) && !word.starts_with(['/', '-', '%', '$', '~']);
        let is_inside = may_be && !path.is_empty() && !path.split('/').any(|part| part == "..");
        (is_inside && checkout.join(path).is_file()).then(|| path.to_owned())
    });
    named.collect()
}

/// The files of the checkout that commands in trusted settings name: who lands another version decides what is run.
pub(super) fn files_run(checkout: &Path, dangerous: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let is_run = |key: &str| ["filter.", "diff.", "merge."].iter().any(|section| key.starts_with(section));
    let commands = dangerous.iter().filter(|(key, _)| is_run(key)).flat_map(|(_, commands)| commands);
    commands.flat_map(|command| named_files(checkout, command)).collect()
}

/// Where the user's settings put large files, if they say so.
pub(super) fn lfs_path(settings: &[Setting]) -> Option<String> {
    config::last(settings, "lfs.storage").map(Setting::text)
}

/// The store of Git LFS.
pub(super) fn lfs_storage(repo: &Repo, path: Option<&str>) -> std::path::PathBuf {
    repo.common_dir.join(path.unwrap_or("lfs"))
}

/// Whether a setting of the repository applies in the git directory of a lane, too. Unlike Regatta's own git, an agent's
/// git also reads the user's and the system's settings by itself.
fn is_for_lanes(setting: &Setting) -> bool {
    let (section, subsection, name) = setting.parts();
    match section {
        "include" | "includeif" | "gc" | "maintenance" | "rerere" | "index" => false,
        "extensions" => matches!(name, "objectformat" | "partialclone"),
        // A lane has exactly one of each: git refuses to change a setting that is there twice.
        "user" => !(subsection.is_none() && matches!(name, "name" | "email")),
        "core" => !OF_ONE_CHECKOUT.contains(&name),
        "lfs" => !(subsection.is_none() && name == "storage"),
        _ => true,
    }
}

/// The settings of a lane's git directory: the repository's own, as the user trusts them. Hooks are those in the
/// directory itself, nothing is collected in the background, and the same conflict is not resolved by an old answer.
pub(super) fn lane_config(settings: &[Setting]) -> Vec<u8> {
    let own = |key: &str, value: &str| Setting {
        scope: "local".into(),
        key: key.into(),
        value: Some(value.as_bytes().to_vec()),
    };
    let local = |setting: &&Setting| matches!(setting.scope.as_str(), "local" | "worktree");
    let copied: Vec<&Setting> =
        settings.iter().filter(local).filter(|setting| is_for_lanes(setting)).collect();
    let extended = copied.iter().any(|setting| setting.key.starts_with("extensions."));
    let fixed = [
        own("core.repositoryformatversion", if extended { "1" } else { "0" }),
        own("core.bare", "false"),
        own("core.logallrefupdates", "true"),
        own("core.fsmonitor", "false"),
        own("core.splitindex", "false"),
        own("gc.auto", "0"),
        own("maintenance.auto", "false"),
        own("rerere.enabled", "false"),
        // Large files are read from the repository's store through the alternates, and written here.
        own("lfs.storage", "lfs"),
    ];
    config::render(fixed.iter().chain(copied))
}

/// Settings that can make git run a program, read another file, or contact another host, with all their values.
///
/// Of the user's and the system's settings, only those that Regatta's own git obeys count.
pub(super) fn dangerous(settings: &[Setting]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for setting in settings {
        let in_repository = matches!(setting.scope.as_str(), "local" | "worktree");
        if is_dangerous(setting) && (in_repository || is_copied(setting)) {
            found.entry(setting.key.clone()).or_default().push(setting.text());
        }
    }
    found
}

fn is_dangerous(setting: &Setting) -> bool {
    let (section, _, name) = setting.parts();
    match section {
        "filter" | "include" | "includeif" | "alias" | "url" | "credential" | "protocol" | "gpg"
        | "pager" | "http" | "lfs" | "push" | "trailer" => true,
        "core" => matches!(
            name,
            "hookspath"
                | "fsmonitor"
                | "sshcommand"
                | "attributesfile"
                | "worktree"
                | "editor"
                | "pager"
                | "askpass"
                | "gitproxy"
                | "alternaterefscommand"
        ),
        "diff" => matches!(name, "external" | "command" | "textconv"),
        "merge" => name == "driver",
        "remote" => !matches!(name, "fetch" | "tagopt" | "prune" | "prunetags" | "skipdefaultupdate"),
        "submodule" => name == "update",
        "uploadpack" => name == "packobjectshook",
        "extensions" => matches!(name, "worktreeconfig" | "partialclone"),
        "sequence" => name == "editor",
        _ => name == "sshcommand",
    }
}
