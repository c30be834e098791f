//! The actions of the simulated agent: files in its lane, programs, git, `regatta`.
//!
//! This is the agent's own process, not the engine, so it uses `std::process` and `std::fs` directly.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `path` inside the current directory, with its parents created; refused if it leads outside, also through links.
pub(super) fn inside(path: &str) -> Result<PathBuf, String> {
    let here =
        std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(|error| error.to_string())?;
    inside_of(&here, Path::new(path))
}

fn inside_of(here: &Path, path: &Path) -> Result<PathBuf, String> {
    let leaves = || format!("{} is outside the lane", path.display());
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || path.file_name().is_none() {
        return Err(leaves());
    }
    let full = here.join(path);
    let parent = full.parent().ok_or_else(leaves)?;
    let existing = parent.ancestors().find(|dir| dir.exists()).ok_or_else(leaves)?;
    let real = existing.canonicalize().map_err(|error| error.to_string())?;
    if !real.starts_with(here) || full.is_symlink() {
        return Err(leaves());
    }
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    Ok(full)
}

pub(super) fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(inside(path)?, text).map_err(|error| format!("{path}: {error}"))
}

pub(super) fn append(path: &str, text: &str) -> Result<(), String> {
    let open = fs::OpenOptions::new().create(true).append(true).open(inside(path)?);
    open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| format!("{path}: {error}"))
}

/// An edit that is already there counts as done: a retry finds its earlier work in the lane.
pub(super) fn edit(path: &str, old: &str, new: &str) -> Result<(), String> {
    let text = fs::read_to_string(inside(path)?).map_err(|error| format!("{path}: {error}"))?;
    if text.contains(old) {
        return write(path, &text.replacen(old, new, 1));
    }
    if text.contains(new) && !new.is_empty() {
        Ok(())
    } else {
        Err(format!("{path} does not contain `{old}`"))
    }
}

pub(super) fn delete(path: &str) -> Result<(), String> {
    match fs::remove_file(inside(path)?) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{path}: {error}")),
        _ => Ok(()),
    }
}

/// Runs a program to its end; its output is returned, never printed to our own stream.
pub(super) fn run<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: &[S]) -> Result<String, String> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.map_err(|error| format!("{name}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if status.success() {
        return Ok(said(&stdout));
    }
    let words = if stderr.is_empty() { said(&stdout) } else { said(&stderr) };
    Err(format!("{name}: {status}: {words}"))
}

/// Commits everything in the lane; having nothing to commit is fine.
pub(super) fn commit(message: &str) -> Result<String, String> {
    run("git", &["add", "--all", "--", "."])?;
    if run("git", &["diff", "--cached", "--quiet"]).is_ok() {
        return Ok("nothing to commit".to_owned());
    }
    let message = format!("--message={message}");
    let settings = ["user.name=Regatta Sim", "user.email=sim@regatta.invalid", "commit.gpgSign=false"];
    let mut args: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
    args.extend(["commit", "--quiet", &message]);
    run("git", &args)
}

/// Runs this same binary, as an agent would run `regatta`.
pub(super) fn regatta(args: &[&str]) -> Result<String, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    run(exe, args)
}

/// A detached process in its own session, as real agents leave behind.
pub(super) fn spawn_orphan(seconds: u64) -> Result<String, String> {
    let seconds = seconds.to_string();
    run("setsid", &["sh", "-c", "sleep \"$0\" </dev/null >/dev/null 2>&1 &", &seconds])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside_the_lane() {
        let outer = tempfile::tempdir().unwrap();
        let lane = outer.path().canonicalize().unwrap().join("lane");
        fs::create_dir(&lane).unwrap();
        std::os::unix::fs::symlink(outer.path(), lane.join("out")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", lane.join("link")).unwrap();
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "out/x", "out/new/x", "link", ".", "/"] {
            assert!(inside_of(&lane, Path::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(inside_of(&lane, Path::new("./new/dir/file")).unwrap(), lane.join("./new/dir/file"));
        assert!(lane.join("new/dir").is_dir());
        assert!(!outer.path().join("new").exists());
    }
}
