//! What has to be true of a world whatever was done to it, each with a sentence for its violation.
//!
//! A failed check is a line, not a panic, so that one run reports everything that is wrong.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::World;

/// The file in which agents record each line after writing it into their lane.
pub const LEDGER: &str = "ledger";

/// Shell functions for agents. `line FILE` appends a line that no other agent ever writes; `fresh FILE` replaces the
/// whole file with one.
pub fn pen(world: &World) -> String {
    let ledger = world.outside(LEDGER);
    format!(
        "n=0\nnext() {{ n=$((n+1)); l=\"$REGATTA_TASK.$REGATTA_ATTEMPT.$$.$n\"; }}\n\
         line() {{ next; echo \"$l\" >>\"$1\" && echo \"$l\" >>'{0}'; }}\n\
         fresh() {{ next; echo \"$l\" >\"$1\" && echo \"$l\" >>'{0}'; }}\n",
        ledger.display()
    )
}

/// All violations once nothing moves any more. `own_commits` is how many commits on the target are the user's.
pub fn violations(world: &World, own_commits: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    wrong.extend(processes(world));
    wrong.extend(history(world, own_commits));
    wrong.extend(lanes(world));
    wrong.extend(git_is_sound(world));
    wrong.extend(database(world));
    wrong.extend(lost_lines(world));
    wrong
}

/// No process of the world is left.
pub fn processes(world: &World) -> Vec<String> {
    let gone = crate::daemon::within(crate::daemon::DEADLINE, || world.processes().is_empty().then_some(()));
    match gone {
        Some(()) => Vec::new(),
        None => world.processes().into_iter().map(|process| format!("still alive: {process}")).collect(),
    }
}

/// Each landed task is on the target exactly once, nothing else is, and the history is linear.
pub fn history(world: &World, own_commits: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let merges = world.repo().git(["rev-list", "--merges", "main", "--"]);
    if !merges.is_empty() {
        wrong.push(format!("the target is not linear: {merges}"));
    }
    let (mut landed, others) = landings(&told_by_commits(world));
    for (task, state) in world.stored() {
        let times = landed.remove(&task).unwrap_or(0);
        if times != usize::from(state == "landed") {
            let log = world.repo().git(["log", "--format=%h %s%n%(trailers)", "main", "--"]);
            wrong.push(format!("{task} is {state} and {times} times on the target:\n{log}"));
        }
    }
    wrong.extend(landed.keys().map(|task| format!("{task} is on the target and not in the store")));
    if others != own_commits {
        wrong.push(format!("{others} commits on the target are nobody's, not {own_commits}"));
    }
    wrong.extend(written_twice(world));
    wrong
}

/// Lines of agents that two commits of the target add: the same work is there twice, whatever its commits say.
fn written_twice(world: &World) -> Vec<String> {
    let ledger = fs::read_to_string(world.outside(LEDGER)).unwrap_or_default();
    let lines: HashSet<&str> = ledger.lines().collect();
    let log = world.repo().git(["log", "-p", "--no-renames", "--format=", "main", "--"]);
    let mut seen = HashSet::new();
    let added = log.lines().filter_map(|line| line.strip_prefix('+')).filter(|line| lines.contains(line));
    added.filter(|line| !seen.insert(*line)).map(|line| format!("written twice: the line {line}")).collect()
}

/// The task of every commit on the target, newest first; empty for a commit without a task.
fn told_by_commits(world: &World) -> Vec<String> {
    let format = "--format=.%(trailers:key=Regatta-Task,valueonly,separator=%x2C)";
    let log = world.repo().git(["log", format, "main", "--"]);
    log.lines().map(|line| line.trim_start_matches('.').trim().to_owned()).collect()
}

/// How often each task landed, and how many commits belong to no task.
fn landings(commits: &[String]) -> (BTreeMap<String, usize>, usize) {
    let mut landed: BTreeMap<String, usize> = BTreeMap::new();
    let (of_tasks, others): (Vec<&String>, Vec<&String>) = commits.iter().partition(|task| !task.is_empty());
    for task in of_tasks {
        *landed.entry(task.clone()).or_default() += 1;
    }
    (landed, others.len())
}

/// Lanes belong to tasks that may need them again, and git and the disk agree about them.
pub fn lanes(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let states: BTreeMap<String, String> = world.stored().into_iter().collect();
    let dirs: BTreeSet<String> = world.lane_dirs().into_iter().collect();
    for lane in &dirs {
        match states.get(lane).map(String::as_str) {
            Some("landed" | "done") => {
                let status =
                    world.repo().try_git(&world.lanes().join(lane), &["status", "--porcelain", "-b"]);
                let status = [status.stdout, status.stderr].concat();
                let status = String::from_utf8_lossy(&status).into_owned();
                wrong.push(format!("the lane of {lane} leaked: its task is settled\n{status}"));
            }
            None => wrong.push(format!("a lane of nobody: {lane}")),
            Some(_) => {}
        }
    }
    let root = world.lanes();
    let listed = world.repo().git(["worktree", "list", "--porcelain"]);
    let known: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| Path::new(line.strip_prefix("worktree ")?).strip_prefix(&root).ok())
        .map(|path| path.display().to_string())
        .collect();
    wrong.extend(dirs.difference(&known).map(|lane| format!("{lane} is a directory that git does not know")));
    wrong.extend(known.difference(&dirs).map(|lane| format!("{lane} is a worktree without a directory")));
    wrong.extend(pool(world));
    wrong
}

/// Every pooled tree has its record and its manifest and every record its tree, no task holds any of them, and nothing
/// that a task wrote or brought in is left in one.
fn pool(world: &World) -> Vec<String> {
    let names = |dir: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let records = world.root().join(".regatta/pool");
    let trees = names(&world.lanes().join(".pool"));
    let with = |ending: &str| -> BTreeSet<String> {
        names(&records).iter().filter_map(|name| name.strip_suffix(ending)).map(str::to_owned).collect()
    };
    let mut wrong = Vec::new();
    if trees != with(".json") || trees != with(".index") {
        wrong.push(format!("the pool holds {trees:?} and has records of {:?}", names(&records)));
    }
    for number in &trees {
        let record = fs::read_to_string(records.join(format!("{number}.json"))).unwrap_or_default();
        if !record.contains("\"held_by\":null") {
            wrong.push(format!("a task still has the pooled lane {number}: {record}"));
        }
        if world.lanes().join(".pool").join(number).join(".git").exists() {
            wrong.push(format!("the pooled lane {number} still belongs to a task"));
        }
    }
    wrong
}

/// The repository is intact, and no lock is left in it.
pub fn git_is_sound(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let fsck = world.repo().try_git(world.root(), &["fsck", "--full", "--strict", "--no-dangling"]);
    if !fsck.status.success() {
        wrong.push(format!("fsck: {}", String::from_utf8_lossy(&fsck.stderr)));
    }
    let status = world.repo().git(["status", "--porcelain"]);
    if !status.is_empty() {
        wrong.push(format!("the user's checkout is not clean: {status}"));
    }
    wrong
        .extend(locks(&world.root().join(".git")).into_iter().map(|path| format!("a lock was left: {path}")));
    wrong
}

fn locks(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "objects" {
            found.extend(locks(&path));
        } else if name.ends_with(".lock") && !name.starts_with("regatta") {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The database is intact, every event can follow the one before it, and together they lead to the stored states.
pub fn database(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let db = world.database();
    let check: String =
        db.query_row("pragma integrity_check", [], |row| row.get(0)).expect("it can be checked");
    if check != "ok" {
        wrong.push(format!("integrity_check: {check}"));
    }
    let sql =
        "select coalesce(t.id, ''), e.body from event e left join task t on t.seq = e.task order by e.seq";
    let mut query = db.prepare(sql).expect("the schema is known");
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let mut told: BTreeMap<String, &'static str> = BTreeMap::new();
    for (task, body) in rows.expect("events can be read").flatten() {
        let body: Value = serde_json::from_str(&body).expect("events are JSON");
        let Some((before, after)) = meaning(&body) else { continue };
        let was = told.get(&task).copied().unwrap_or("nothing");
        if !before.contains(&was) {
            wrong.push(format!("{task} was {was} when {body} happened"));
        }
        told.insert(task, after);
    }
    for (task, state) in world.stored() {
        if told.get(&task).copied() != Some(state.as_str()) {
            wrong.push(format!("{task} is {state}, its events say {:?}", told.get(&task)));
        }
    }
    let held = "select count(*) from task where session is not null and name not in ('claimed', 'running', 'judging')";
    let held: i64 = db.query_row(held, [], |row| row.get(0)).expect("tasks can be read");
    if held > 0 {
        wrong.push(format!("{held} tasks are held and not claimed"));
    }
    let cars = "select count(*) from car c join task t on t.seq = c.task where t.name <> 'landing'";
    let cars: i64 = db.query_row(cars, [], |row| row.get(0)).expect("cars can be read");
    if cars > 0 {
        wrong.push(format!("{cars} cars of tasks that are not landing"));
    }
    wrong
}

/// The states in which an event can happen, and the one it leads to; `None` for events that change no state.
fn meaning(body: &Value) -> Option<(&'static [&'static str], &'static str)> {
    const HELD: &[&str] = &["claimed", "running", "judging"];
    const ENDED: &[&str] =
        &["nothing", "pending", "parked", "blocked", "failed", "cancelled", "skipped", "done", "landed"];
    Some(match body["kind"].as_str()? {
        "enqueued" => (ENDED, "pending"),
        "claimed" => (&["pending"], "claimed"),
        "started" => (&["claimed"], "running"),
        "exited" => (&["claimed", "running"], "judging"),
        "retrying" | "released" => (HELD, "pending"),
        "parked" => (&["claimed", "running", "judging", "pending", "parked"], "parked"),
        // A task that waits after a failure is pending, with a time.
        "due" => (&["parked", "pending"], "pending"),
        "approved" => (&["judging"], "landing"),
        "done" => (&["judging"], "done"),
        "failed" => (HELD, "failed"),
        "blocked" => (&["claimed", "running", "judging", "landing"], "blocked"),
        "skipped" => (&["pending", "parked"], "skipped"),
        "rearmed" => (&["skipped"], "pending"),
        "prompt-queued" if body["rearmed"] == true => (&["done", "landed", "blocked", "failed"], "pending"),
        "following-up" => (&["judging", "landing", "landed"], "pending"),
        "stands" => (&["judging"], "landed"),
        "cancelled" => {
            (&["claimed", "running", "judging", "landing", "pending", "parked", "blocked"], "cancelled")
        }
        "landing" => match body["landing"]["kind"].as_str()? {
            "landed" | "already-in" => (&["landing"], "landed"),
            _ => return None,
        },
        _ => return None,
    })
}

/// The name prefix of directories beside the checkout that are lanes which a test moved away from Regatta.
pub const TAKEN: &str = "taken-";

/// Every line an agent ever wrote is in a lane, on a branch or in a salvage.
///
/// Work moves from lanes to refs and never back, so lanes are read first: this check is valid at any moment.
pub fn lost_lines(world: &World) -> Vec<String> {
    let ledger = fs::read_to_string(world.outside(LEDGER)).unwrap_or_default();
    // The last line may be incomplete if its agent was just killed.
    let complete = &ledger[..ledger.rfind('\n').map_or(0, |end| end + 1)];
    let mut missing: HashSet<&[u8]> = complete.lines().map(str::as_bytes).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let taken = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(TAKEN);
    for entry in list(&world.repo().outside()).filter(|entry| taken(&entry.file_name())) {
        strike_out_dir(&entry.path(), &mut missing);
    }
    // Trees that are about to be deleted or reused do not count.
    let counts = |entry: &fs::DirEntry| entry.file_name() != ".trash" && entry.file_name() != ".pool";
    for entry in list(&world.lanes()).filter(counts) {
        strike_out_dir(&entry.path(), &mut missing);
    }
    if !missing.is_empty() {
        for line in reachable(world).split(|&byte| byte == b'\n') {
            missing.remove(line);
        }
    }
    let mut lost: Vec<String> =
        missing.into_iter().map(|line| format!("lost: the line {}", String::from_utf8_lossy(line))).collect();
    lost.sort();
    lost
}

fn strike_out_dir(dir: &Path, missing: &mut HashSet<&[u8]>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            strike_out_dir(&entry.path(), missing);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            for line in bytes.split(|&byte| byte == b'\n') {
                missing.remove(line);
            }
        }
    }
}

/// The content of every object that a ref or a worktree's HEAD reaches.
fn reachable(world: &World) -> Vec<u8> {
    let objects = world.repo().git(["rev-list", "--objects", "--no-object-names", "--all"]);
    let mut cat = Command::new("git")
        .current_dir(world.root())
        .env_clear()
        .envs(world.repo().env())
        .args(["cat-file", "--batch", "--buffer"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git can be started");
    let mut stdin = cat.stdin.take().expect("piped above");
    let feeding = std::thread::spawn(move || stdin.write_all(format!("{objects}\n").as_bytes()));
    let output = cat.wait_with_output().expect("git ends");
    let _ = feeding.join();
    output.stdout
}

#[cfg(test)]
mod tests {
    use super::landings;

    #[test]
    fn every_commit_of_a_task_is_a_landing() {
        let (landed, others) = landings(&["a", "", "b", "a"].map(str::to_owned));
        assert_eq!(landed, [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
        assert_eq!(others, 1);
    }
}
