//! Races: links swapped in while Regatta reads a lane whose agent is at work.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use regatta_testkit::repo::write;
use regatta_testkit::world::task;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::program::SECRET;
use crate::scene::{Scene, Setting, User, WAIT};
use crate::stories::Story;

/// Told at the levels full and files, as an ordinary user.
pub(crate) const STORIES: &[Story] = &[("60_links_swapped_in_while_regatta_looks", links_swapped_in)];

/// How many files are swapped at once. Each of them is one round of the race in each look.
const FILES: usize = 100;
/// How many rounds there are at least, and for how long at most.
const ROUNDS: usize = 2_000;
const LONGEST: Duration = Duration::from_secs(10);

/// Directories and files that are links to secrets every other moment.
fn links_swapped_in(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    scene.configure(&format!("{}radar: {{ interval: 1s }}\n", setting.config(scene.facts.tcp)));
    let (secrets, raced) = (scene.home.join(".aws/many"), format!("{SECRET}raced"));
    for n in 0..FILES {
        write(&secrets.join(name(n)), format!("# {SECRET}raced-{n}\n"));
    }
    scene.give_away();
    let body = format!(
        "'{}' swap '{}' & pid=$!\n{WAIT}\nkill $pid; wait $pid\necho x >x.txt",
        scene.escape().display(),
        secrets.display()
    );
    let plan = scene.plan(&task("racer", "", &body));
    let run = scene.world.start(&plan, &["--no-dashboard"]);
    let lane = scene.facts.lanes.join("racer");
    regatta_testkit::daemon::until("they are swapped", || lane.join("swapped").exists().then_some(()));
    let (begun, mut shown) = (Instant::now(), 0);
    while shown * FILES < ROUNDS && begun.elapsed() < LONGEST {
        for words in [&["diff", "racer"][..], &["radar"], &["diff", "racer", "--stat"]] {
            let ran = scene.world.regatta(words);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!said.contains(&raced), "regatta {}: {said}", words.join(" "));
            shown += usize::from(ran.code == 0 && words == ["diff", "racer"]);
        }
    }
    let found = secrets_in_objects(&scene);
    assert!(found.is_empty(), "while it runs: {found:?}");
    scene.let_go_on("racer");
    let ran = run.wait();
    assert!(shown > 0, "no look succeeded in {:?}", begun.elapsed());
    for words in [&["diff", "racer"][..], &["report"], &["radar"], &["salvage", "list"]] {
        let said = scene.world.regatta(words);
        assert!(!said.stdout.contains(&raced), "regatta {}: {}", words.join(" "), said.stdout);
    }
    let found = secrets_in_objects(&scene);
    assert!(found.is_empty(), "afterwards: {found:?}; {}", ran.shown());
}

fn name(n: usize) -> String {
    format!("file-{n:03}")
}

/// The secrets in every store of objects of the repository and of Regatta, wherever it is.
fn secrets_in_objects(scene: &Scene) -> Vec<String> {
    let mut todo = vec![scene.facts.project.join(".git"), scene.facts.project.join(".regatta")];
    todo.push(scene.facts.lanes.clone());
    let mut found = Vec::new();
    while let Some(dir) = todo.pop() {
        for path in fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
            if is_dir && path.ends_with("objects") {
                found.extend(secrets_in_store(scene, &path));
            } else if is_dir {
                todo.push(path);
            }
        }
    }
    found
}

fn secrets_in_store(scene: &Scene, objects: &Path) -> Vec<String> {
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch"]);
    command.current_dir(&scene.facts.project).env_clear().envs(scene.world.repo().env());
    let output = command.env("GIT_OBJECT_DIRECTORY", objects).output().unwrap();
    let raced = format!("{SECRET}raced");
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains(&raced) { vec![format!("{} has it", objects.display())] } else { Vec::new() }
}

/// Swaps a directory and a link to the secrets, and files and links to each, until it is ended.
pub(crate) fn swap(secrets: &Path) -> io::Result<()> {
    let (dir, other) = (PathBuf::from("dir"), PathBuf::from(".git-ignored-link"));
    fs::create_dir_all(&dir)?;
    for n in 0..FILES {
        fs::write(dir.join(name(n)), "harmless\n")?;
        fs::write(name(n), "harmless\n")?;
    }
    symlink(secrets, &other)?;
    let spare = PathBuf::from("dir-of-links");
    fs::create_dir_all(&spare)?;
    for n in 0..FILES {
        symlink(secrets.join(name(n)), spare.join(name(n)))?;
    }
    fs::write("swapped", "")?;
    loop {
        for n in 0..FILES {
            renameat_with(CWD, &dir, CWD, &other, RenameFlags::EXCHANGE)?;
            renameat_with(CWD, name(n), CWD, spare.join(name(n)), RenameFlags::EXCHANGE)?;
        }
    }
}
