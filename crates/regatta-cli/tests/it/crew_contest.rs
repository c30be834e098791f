//! Many processes at once, some of which die: nothing is held by two, nothing is lost, nothing is done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;

const WORKERS: usize = 50;
const TASKS: usize = 60;

/// A shell that registers itself, takes tasks and completes them. It marks what it holds with its process id, and
/// reports an error if a live process holds the same.
fn worker(world: &World, n: usize) -> Child {
    let script = format!(
        r#"'{regatta}' crew register W{n} --pid $$ -q >/dev/null || exit 9
while line=$('{regatta}' task claim --as W{n} --wait -q); do
  id=${{line%% *}}
  if ! ln -s $$ "held/$id" 2>/dev/null; then
    other=$(readlink "held/$id")
    state=$(sed 's/.*) //; s/ .*//' "/proc/$other/stat" 2>/dev/null)
    case "$state" in ''|Z|X) ;; *) echo "$id W{n} $other $state" >>violations ;; esac
    ln -sfn $$ "held/$id"
  fi
  rm -f "held/$id"
  '{regatta}' task complete "$id" --as W{n} --result "by W{n}" -q >/dev/null 2>&1
done
"#,
        regatta = crate::REGATTA
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(world.repo().outside()).env_clear().envs(world.variables());
    command.env("REGATTA_PROJECT", world.root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("sh can be started")
}

#[test]
fn fifty_processes_take_every_task_once_though_members_are_killed() {
    let world = World::new(REGATTA);
    std::fs::create_dir(world.outside("held")).expect("a directory can be made");
    for n in 0..TASKS {
        world.regatta(["task", "push", "x", "--id", &format!("t{n}"), "-q"]).exited(0);
    }
    let mut watch = world.begin(["task", "watch", "--json"]);
    let mut workers: BTreeMap<String, Child> =
        (0..WORKERS).map(|n| (format!("W{n}"), worker(&world, n))).collect();
    let (mut done, mut n_killed) = (BTreeSet::new(), 0);
    // A task whose holders die five times in a row is blocked: here each loses two at most.
    let mut deaths: BTreeMap<String, usize> = BTreeMap::new();
    while done.len() < TASKS {
        let line = watch.next_line().expect("the board is followed");
        let task: Value = serde_json::from_str(&line).expect("an object per line");
        if task["state"] == "done" {
            done.insert(task["id"].as_str().expect("an id").to_owned());
        }
        // Every third holder that is seen dies with what it holds.
        let holder = task["holder"].as_str().filter(|_| task["state"] == "claimed");
        let lot = line.bytes().map(usize::from).sum::<usize>();
        let deaths = deaths.entry(task["id"].as_str().expect("an id").to_owned()).or_default();
        let dies = lot % 3 == 0 && n_killed < 30 && *deaths < 2;
        if let Some(mut child) = holder.filter(|_| dies).and_then(|name| workers.remove(name)) {
            *deaths += 1;
            child.kill().expect("it is ours to kill");
            child.wait().expect("it can be waited for");
            n_killed += 1;
        }
    }
    for child in workers.values_mut() {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(n_killed > 0, "some died while they held something");
    let violations = std::fs::read_to_string(world.outside("violations")).unwrap_or_default();
    assert_eq!(violations, "", "held by two that were alive");
    // The log agrees: each task has one holder at a time, and is done once.
    let mut held: BTreeMap<String, bool> = BTreeMap::new();
    let mut n_done: BTreeMap<String, usize> = BTreeMap::new();
    for event in world.regatta(["events", "--json"]).exited(0).json_lines() {
        let Some(task) = event["task"].as_str().map(str::to_owned) else { continue };
        match event["kind"].as_str() {
            Some("claimed") => assert_ne!(held.insert(task.clone(), true), Some(true), "{task} taken twice"),
            Some("released") => assert_eq!(held.insert(task.clone(), false), Some(true), "{task} released"),
            Some("done") => {
                assert_eq!(held.insert(task.clone(), false), Some(true), "{task} done by nobody");
                *n_done.entry(task).or_default() += 1;
            }
            _ => {}
        }
    }
    assert_eq!(n_done.len(), TASKS);
    assert!(n_done.values().all(|n| *n == 1), "{n_done:?}");
}

#[test]
fn of_twenty_writers_that_compare_none_is_lost() {
    let world = World::new(REGATTA);
    let script = format!(
        r#"until now=$('{regatta}' ctx get counter --json 2>/dev/null)
  version=$(echo "$now" | sed -n 's/.*"version": \([0-9]*\).*/\1/p')
  value=$(echo "$now" | sed -n 's/.*"value": "\([0-9]*\)".*/\1/p')
  '{regatta}' ctx set counter $((${{value:-0}} + 1)) --if-version "${{version:-0}}" -q 2>/dev/null
do :; done
"#,
        regatta = crate::REGATTA
    );
    let start = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(world.root()).env_clear().envs(world.variables());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("sh can be started")
    };
    let writers: Vec<Child> = (0..20).map(|_| start()).collect();
    for mut writer in writers {
        assert!(writer.wait().expect("it can be waited for").success());
    }
    let counter = world.regatta(["ctx", "get", "counter", "--json"]).exited(0).json();
    assert_eq!((counter["value"].as_str(), counter["version"].as_u64()), (Some("20"), Some(20)));
}

#[test]
fn a_message_is_shown_as_new_once_though_readers_and_writers_are_killed() {
    const MESSAGES: usize = 12;
    let world = World::new(REGATTA);
    let _jerry = world.join("Jerry", "developer");
    let mut seen: Vec<String> = Vec::new();
    let mut reader = world.begin(["msg", "wait", "--follow", "--as", "Jerry", "--json"]);
    for n in 0..MESSAGES {
        world.regatta(["msg", "send", "Jerry", &format!("n{n}")]).exited(0);
        let line = reader.next_line().expect("it is followed");
        seen.push(serde_json::from_str::<Value>(&line).expect("an object")["text"].to_string());
        if n % 3 == 2 {
            // Killed at a random moment: what it had shown may not be marked yet.
            reader.kill();
            reader = world.begin(["msg", "wait", "--follow", "--as", "Jerry", "--json"]);
            // It shows unmarked messages again, and then new ones.
            world.regatta(["msg", "send", "Jerry", &format!("k{n}")]).exited(0);
            loop {
                let line = reader.next_line().expect("it is followed");
                let text = serde_json::from_str::<Value>(&line).expect("an object")["text"].to_string();
                let last = text == format!("\"k{n}\"");
                assert!(last || seen.last() == Some(&text), "only the last one may come again: {text}");
                if last {
                    break;
                }
            }
        }
    }
    // Messages that two read at the same time are shown by one of them.
    let others: Vec<_> =
        (0..4).map(|_| world.begin(["msg", "wait", "--as", "Jerry", "--timeout", "5", "--json"])).collect();
    reader.kill();
    world.regatta(["msg", "inbox", "--as", "Jerry", "--json"]).exited(0);
    world.regatta(["msg", "send", "Jerry", "once"]).exited(0);
    let shown: Vec<String> = others.into_iter().flat_map(|other| other.rest().0).collect();
    assert_eq!(shown.iter().filter(|line| line.contains("\"once\"")).count(), 1, "{shown:?}");
    let all = world.regatta(["msg", "inbox", "--all", "--as", "Jerry", "--json"]).exited(0).json();
    let mut texts: Vec<&str> =
        all.as_array().expect("a list").iter().filter_map(|message| message["text"].as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), MESSAGES + MESSAGES / 3 + 1, "none is lost: {texts:?}");
}
