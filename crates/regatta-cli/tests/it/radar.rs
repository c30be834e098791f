//! `regatta radar`: what would conflict, seen while agents run, without touching anything.

mod engine;
mod hostile;
mod steering;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Barrier, Running, World, task, text};
use serde_json::{Value, json};

use crate::REGATTA;

/// Nine lines, each its own number.
const NINE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// A world whose `main` has some files to change.
fn world() -> World {
    let world = World::new(REGATTA);
    world.repo().write("nine.txt", NINE);
    world.repo().write("old/name.txt", NINE);
    world.repo().write("picture.bin", b"\0\x01\x02base\0");
    world.repo().write("näme mit leer.txt", NINE);
    world.repo().commit_all("files");
    world
}

/// Agents that have done something and wait to continue.
struct Crew {
    run: Running,
    barriers: Vec<Barrier>,
}

impl Crew {
    /// Starts `(id, keys, script)` in the foreground; returns when every script has run.
    fn at_work(world: &World, tasks: &[(&str, &str, &str)], flags: &[&str]) -> Self {
        let barriers: Vec<Barrier> = tasks.iter().map(|(id, ..)| world.barrier(id)).collect();
        let plan: String = tasks
            .iter()
            .zip(&barriers)
            .map(|((id, keys, script), barrier)| task(id, keys, &format!("{script}\n{}", barrier.script())))
            .collect();
        let run = world.start(&world.plan(&plan), &[&["--no-dashboard", "-j", "8"], flags].concat());
        barriers.iter().for_each(Barrier::arrived);
        Self { run, barriers }
    }

    /// Lets all agents finish; returns the run's exit code.
    fn finish(self) -> i32 {
        self.barriers.iter().for_each(Barrier::open);
        self.run.wait().code
    }
}

#[track_caller]
fn radar(world: &World, args: &[&str]) -> Value {
    let ran = world.regatta([&["radar", "--json"], args].concat()).exited(0);
    serde_json::from_str(&ran.stdout).expect("one document")
}

/// `a b conflict nine.txt` for each finding, in order.
fn seen(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap_or_else(|| panic!("findings in {document}"));
    let line = |finding: &Value| {
        let files: Vec<&str> = finding["files"].as_array().unwrap().iter().map(text).collect();
        let (task, with) = (text(&finding["task"]), text(&finding["with"]));
        format!("{task} {with} {} {}", text(&finding["kind"]), files.join(","))
    };
    findings.iter().map(line).collect()
}

/// Everything that a scan must leave as it is: files, indexes, refs, objects.
fn everything(world: &World) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut open = vec![world.root().to_owned(), world.lanes()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if path == world.state_dir() {
                continue;
            } else if meta.is_dir() {
                open.push(path);
            } else if meta.is_file() {
                // An existing object is marked as still in use, by its time.
                let is_object = path.starts_with(world.root().join(".git/objects"));
                let at = if is_object { std::time::UNIX_EPOCH } else { meta.modified().unwrap() };
                found.insert(path.clone(), (fs::read(&path).unwrap(), at));
            }
        }
    }
    found
}

#[test]
fn uncommitted_work_in_the_same_lines_would_conflict_and_in_others_merges() {
    let world = world();
    let tasks = [
        ("top", "", "sed -i s/^1/one/ nine.txt"),
        ("also", "", "sed -i s/^1/eins/ nine.txt; git add nine.txt"),
        ("end", "", "sed -i s/^9/nine/ nine.txt; git commit -qam end; echo more >>extra.txt"),
        ("apart", "", "echo new >new.txt"),
    ];
    let crew = Crew::at_work(&world, &tasks, &[]);
    let before = everything(&world);
    let document = radar(&world, &[]);
    assert_eq!(
        seen(&document),
        ["also top conflict nine.txt", "also end merges nine.txt", "end top merges nine.txt"]
    );
    assert_eq!(document["tasks"], json!(["also", "apart", "end", "top"]));
    assert_eq!((&document["target"], &document["unread"]), (&json!("main"), &json!([])));
    assert_eq!(document["tip"], world.repo().rev("main"));
    assert_eq!(seen(&radar(&world, &["end"])).len(), 2, "only what concerns it");
    assert_eq!(everything(&world), before, "a look changes nothing");

    insta::assert_snapshot!(world.regatta(["radar"]).shown(), @"
      TASK  WITH  VERDICT         FILES
    ⚠ also  top   would conflict  nine.txt
    ✓ also  end   merges cleanly  nine.txt
    ✓ end   top   merges cleanly  nine.txt
    4 tasks with work that is not on main (HASH), checked just now: one pair would conflict
    ");
    world.regatta(["radar", "--exit-code"]).exited(6);
    insta::assert_snapshot!(world.regatta(["radar", "--exit-code", "apart"]).shown(), @"4 tasks with work that is not on main (HASH), checked just now: no two of them share a file");
    insta::assert_snapshot!(world.regatta(["radar", "nobody"]).shown(), @r#"
    --- stderr
    error: there is no task "nobody"
    hint: `regatta list --status all` shows all tasks
    --- exit 4
    "#);

    // The findings are in `status` and in `list`, which do not scan themselves.
    insta::assert_snapshot!(world.regatta(["status", "top"]).shown(), @"
    ● top  sed -i s/^1/one/ nine.txt
    state     running (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/top
    attempt 1 sh · running for TIME · sandbox LEVEL
    radar     ⚠ would conflict with also in nine.txt (seen TIME ago)
    radar     merges cleanly with end in nine.txt (seen TIME ago)
    next      `regatta logs -f top` follows it; `regatta cancel top` ends it
    ");
    let json: Value =
        serde_json::from_str(&world.regatta(["status", "top", "--json"]).exited(0).stdout).unwrap();
    let mark =
        json!({ "with": "also", "target": false, "kind": "conflict", "files": ["nine.txt"], "n_files": 1 });
    for (key, value) in mark.as_object().unwrap() {
        assert_eq!(&json["radar"][0][key], value, "{key}");
    }
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK   STATE    TRY  AGENT  TIME  TITLE                                               NOW
    ● top    running  1    sh  TIME  sed -i s/^1/one/ nine.txt                           ⚠ would conflict with also
    ● also   running  1    sh  TIME  sed -i s/^1/eins/ nine.txt; git add nine.txt        ⚠ would conflict with top
    ● end    running  1    sh  TIME  sed -i s/^9/nine/ nine.txt; git commit -qam end; …
    ● apart  running  1    sh  TIME  echo new >new.txt
    ");
    let listed: Value = serde_json::from_str(&world.regatta(["list", "--json"]).exited(0).stdout).unwrap();
    let marks = |id: &str| {
        let task = listed.as_array().unwrap().iter().find(|task| task["id"] == id).unwrap().clone();
        task["radar"].as_array().unwrap().len()
    };
    assert_eq!((marks("top"), marks("apart")), (2, 0));

    assert_eq!(crew.finish(), 1, "one of the two cannot land");
    let list = world.regatta(["list"]).exited(0).stdout;
    let landed = list.lines().find(|line| line.contains("landed") && line.contains("end")).unwrap();
    assert!(!landed.contains('⚠'), "what has landed conflicts with nobody: {list}");
}

#[test]
fn renames_deletions_binaries_and_names_of_all_kinds() {
    let world = world();
    let tasks = [
        ("rename", "", "git mv old/name.txt old/other.txt"),
        ("delete", "", "rm old/name.txt"),
        ("change", "", "sed -i s/^5/five/ old/name.txt"),
        ("bin-a", "", r"printf '\000\001\002AAAA\000' >picture.bin"),
        ("bin-b", "", r"printf '\000\001\002BBBB\000' >picture.bin"),
        ("umlaut-a", "", "sed -i s/^5/fünf/ 'näme mit leer.txt'; echo a >'*?[x].txt'"),
        ("umlaut-b", "", "sed -i s/^5/cinq/ 'näme mit leer.txt'; printf 'b\\n' >'*?[x].txt'"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    let document = radar(&world, &[]);
    assert_eq!(
        seen(&document),
        [
            "bin-a bin-b conflict picture.bin",
            "change delete conflict old/name.txt",
            "delete rename conflict old/name.txt,old/other.txt",
            "umlaut-a umlaut-b conflict *?[x].txt,näme mit leer.txt",
            // Git follows the rename.
            "change rename merges old/name.txt",
        ]
    );
    assert_eq!(crew.finish(), 0);
    // Done, and left for a person to land: the branches still conflict.
    world.assert_states([
        "bin-a done",
        "bin-b done",
        "change done",
        "delete done",
        "rename done",
        "umlaut-a done",
        "umlaut-b done",
    ]);
    assert_eq!(seen(&radar(&world, &[])), seen(&document));
    world.repo().git(["merge", "-q", "regatta/bin-a"]);
    let after = seen(&radar(&world, &[]));
    assert_eq!(after[0], "bin-b main conflict picture.bin", "{after:?}");
    assert!(!after.iter().any(|line| line.contains("bin-a")), "{after:?}");
}

#[test]
fn work_that_shares_no_file_may_conflict_all_the_same() {
    let world = world();
    let tasks = [
        ("move", "", "mkdir new; git mv old/name.txt new/name.txt"),
        ("add", "", "echo more >old/more.txt"),
        ("file", "", "echo file >thing"),
        ("dir", "", "mkdir thing; echo dir >thing/inside.txt"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    insta::assert_snapshot!(shown(&seen(&radar(&world, &[])).join("\n")), @"
    add move conflict new/more.txt,old/more.txt
    dir file conflict thing,thing~HASH
    ");
    assert_eq!(crew.finish(), 0);
}

#[test]
fn what_came_to_the_target_meanwhile_is_seen_too() {
    let world = world();
    let tasks = [("a", "", "sed -i s/^1/one/ nine.txt"), ("b", "", "sed -i s/^9/nine/ nine.txt")];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    assert_eq!(seen(&radar(&world, &[])), ["a b merges nine.txt"]);
    world.repo().commit_file("nine.txt", &NINE.replace("1\n2", "uno\n2"), "by hand");
    let document = radar(&world, &[]);
    assert_eq!(seen(&document), ["a main conflict nine.txt", "a b merges nine.txt"]);
    assert_eq!(document["findings"][0]["target"], true);
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ● a  sed -i s/^1/one/ nine.txt
    state     running (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 sh · running for TIME · sandbox LEVEL
    radar     ⚠ would conflict with main in nine.txt (seen TIME ago)
    radar     merges cleanly with b in nine.txt (seen TIME ago)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    ");
    assert_eq!(crew.finish(), 0);
}

#[test]
fn where_nothing_is_under_way_there_is_nothing_to_see() {
    let world = world();
    insta::assert_snapshot!(world.regatta(["radar"]).shown(), @"
    --- stderr
    no task is running, and no scan has been made yet
    ");
    assert_eq!(radar(&world, &[]), Value::Null);
    assert!(!world.state_dir().exists(), "looking makes nothing");
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    assert_eq!(seen(&radar(&world, &[])), Vec::<String>::new());
    insta::assert_snapshot!(world.regatta(["radar"]).shown(), @"no work in progress (checked just now)");
    let cached = world.regatta(["radar", "--cached"]).exited(0).stdout;
    assert!(cached.starts_with("no work in progress (checked "), "{cached}");
    world.repo().git(["checkout", "-q", "-b", "elsewhere"]);
    world.repo().git(["branch", "-q", "-D", "main"]);
    let gone = world.regatta(["-C", world.root().to_str().unwrap(), "radar", "--json"]);
    let said = r#"{"code":4,"error":"the target branch main does not exist","hint":"name another: `target:` in regatta.yaml, or REGATTA_TARGET","next":[{"text":"name another: `target:` in regatta.yaml, or REGATTA_TARGET"}]}"#;
    assert_eq!((gone.code, gone.stdout.trim(), gone.stderr.trim()), (4, "", said));
}

/// Replaces git and records its commands.
fn counting_git(world: &mut World) -> PathBuf {
    let (bin, log) = (world.outside("bin"), world.outside("git.log"));
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).unwrap();
    script(&bin.join("git"), &format!("echo \"$@\" >>'{}'\nexec '{}' \"$@\"", log.display(), real.display()));
    world.env("PATH", format!("{}:{path}", bin.display()));
    log
}

fn asked(log: &Path, word: &str) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').any(|part| part == word)).count()
}

#[test]
fn no_pair_is_merged_twice_and_no_quiet_lane_is_read_twice() {
    let mut world = world();
    // Only requested scans are counted.
    world.config("radar: { enabled: false }\n");
    let log = counting_git(&mut world);
    let tasks = [
        ("a", "", "sed -i s/^1/one/ nine.txt; touch -d '1 hour ago' nine.txt"),
        ("b", "", "sed -i s/^1/eins/ nine.txt"),
        ("c", "", "sed -i s/^9/nine/ nine.txt"),
        ("d", "", "echo d >d.txt"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    fs::remove_file(&log).ok();
    let first = seen(&radar(&world, &[]));
    assert_eq!(first, ["a b conflict nine.txt", "a c merges nine.txt", "b c merges nine.txt"]);
    assert_eq!((asked(&log, "merge-tree"), asked(&log, "diff-tree"), asked(&log, "rev-list")), (1, 1, 1));
    // Files that just changed are read until they are old enough; then not even those.
    let quiet = regatta_testkit::daemon::within(regatta_testkit::daemon::DEADLINE, || {
        fs::remove_file(&log).unwrap();
        assert_eq!(seen(&radar(&world, &[])), first);
        assert_eq!(asked(&log, "merge-tree"), 0, "every pair was known");
        (asked(&log, "update-index") == 0 && asked(&log, "write-tree") == 0).then_some(())
    });
    assert!(quiet.is_some(), "lanes that rest are read again and again");
    // One lane changes: only its pairs are merged again, in one process.
    fs::write(world.lanes().join("c/nine.txt"), NINE.replace("1\n", "uno\n")).unwrap();
    fs::remove_file(&log).unwrap();
    assert_eq!(seen(&radar(&world, &[])).len(), 3);
    assert_eq!((asked(&log, "merge-tree"), asked(&log, "write-tree")), (1, 1));
    // Losing the cache costs only time.
    fs::remove_dir_all(world.state_dir().join("radar")).unwrap();
    assert_eq!(seen(&radar(&world, &[])).len(), 3);
    fs::write(world.state_dir().join("radar/memory.json"), "{ half a").unwrap();
    fs::write(world.state_dir().join("radar.json"), "").unwrap();
    world.regatta(["list"]).exited(0);
    world.regatta(["status", "a"]).exited(0);
    assert_eq!(seen(&radar(&world, &[])).len(), 3);
    assert_eq!(crew.finish(), 0);
}

#[test]
fn lanes_that_vanish_while_they_are_looked_at_are_left_out() {
    let world = world();
    let tasks: String =
        (0..24).map(|n| task(&format!("t{n}"), "", &format!("echo {n} >>shared-{}.txt", n % 3))).collect();
    let mut run = world.start(&world.plan(&tasks), &["--no-dashboard", "-j", "4", "--no-land"]);
    let mut looks = 0;
    while !run.has_ended() {
        let ran = world.regatta(["radar", "--json"]).exited(0);
        assert!(serde_json::from_str::<Value>(&ran.stdout).is_ok(), "{}", ran.stdout);
        looks += 1;
    }
    assert_eq!(run.wait().code, 0);
    assert!(looks > 0);
    assert_eq!(seen(&radar(&world, &[])).len(), 3 * (8 * 7 / 2), "every branch that adds the same file");
    // A lane whose directory was deleted, and one whose administration is gone.
    let more = [("x", "", "echo x >x.txt"), ("y", "", "echo y >x.txt"), ("z", "", "echo z >x.txt")];
    let crew = Crew::at_work(&world, &more, &["--no-land"]);
    fs::rename(world.lanes().join("x"), world.outside("taken")).unwrap();
    let lines = seen(&radar(&world, &["x", "y", "z"]));
    assert_eq!(lines, ["y z conflict x.txt"]);
    fs::rename(world.outside("taken"), world.lanes().join("x")).unwrap();
    assert_eq!(seen(&radar(&world, &["x", "y", "z"])).len(), 3);
    assert_eq!(crew.finish(), 0);
}

#[test]
fn work_that_is_too_much_to_read_is_known_by_name() {
    let world = world();
    let big = "truncate -s 80M big.bin; sed -i s/^1/one/ nine.txt";
    let tasks = [("big", "", big), ("small", "", "sed -i s/^1/eins/ nine.txt")];
    let mut crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    let document = radar(&world, &[]);
    assert_eq!(seen(&document), ["big small overlap nine.txt"]);
    assert_eq!(document["unread"][0]["task"], "big");
    insta::assert_snapshot!(world.regatta(["radar"]).shown(), @"
      TASK  WITH   VERDICT   FILES
    ~ big   small  overlaps  nine.txt
    2 tasks with work that is not on main (HASH), checked just now: nothing would conflict
    big: its uncommitted work was compared by file name only: 80 MB in uncommitted files are too many to read
    ");
    fs::remove_file(world.lanes().join("big/big.bin")).unwrap();
    assert_eq!(seen(&radar(&world, &[])), ["big small conflict nine.txt"]);
    assert!(!crew.run.has_ended());
    assert_eq!(crew.finish(), 0);
}

#[test]
fn what_one_task_declares_and_another_does_is_told_before_both_have_done_it() {
    let world = world();
    let tasks = [
        ("claims", "writes: ['old/*.txt', docs/]", "true"),
        ("does", "", "sed -i s/^1/one/ old/name.txt; mkdir docs; echo hi >docs/x.md; echo y >y"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    assert_eq!(seen(&radar(&world, &[])), ["claims does overlap docs/x.md,old/name.txt"]);
    assert_eq!(crew.finish(), 0);
}

#[test]
fn a_task_built_on_anothers_work_does_not_stand_against_it() {
    let world = world();
    let first = task("first", "", "sed -i s/^1/one/ nine.txt");
    world.run(&world.plan(&first), &["--no-land"]).exited(0);
    insta::assert_snapshot!(world.regatta(["status", "first"]).shown(), @"
    ✓ first  sed -i s/^1/one/ nine.txt
    state     done (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    branch    regatta/first
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict pass
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    next      `regatta diff first` shows the work; `regatta land first` lands it
    ");
    let barrier = world.barrier("second");
    let keys = "deps: [first]";
    let second = task("second", keys, &format!("sed -i s/^one/two/ nine.txt\n{}", barrier.script()));
    let plan = world.plan(&[first, second].concat());
    let run = world.start(&plan, &["--no-dashboard", "--no-land", "--resume"]);
    barrier.arrived();
    assert_eq!(seen(&radar(&world, &[])), Vec::<String>::new());
    barrier.open();
    assert_eq!(run.wait().code, 0);
}

#[test]
fn watching_shows_another_picture_when_there_is_one() {
    let world = world();
    world.config("radar: { enabled: false, interval: 1s }\n");
    let tasks = [("a", "", "sed -i s/^1/one/ nine.txt"), ("b", "", "sed -i s/^9/nine/ nine.txt")];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    let mut watching = world.begin(["radar", "-w", "--json"]);
    let mut next = || seen(&serde_json::from_str(&watching.next_line().expect("a picture")).unwrap());
    assert_eq!(next(), ["a b merges nine.txt"]);
    fs::write(world.lanes().join("b/nine.txt"), NINE.replace("1\n", "uno\n")).unwrap();
    assert_eq!(next(), ["a b conflict nine.txt"]);
    drop(watching);
    assert_eq!(crew.finish(), 0);
}
