use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use regatta_engine::lanes::{Lanes, PoolOptions};
use regatta_testkit::repo::write;

use super::{bench, bench_with, differences, directory, let_go, options};
use crate::fixture::{Bench, id};

fn pooled_dirs(bench: &Bench) -> usize {
    fs::read_dir(bench.lanes.root().join(".pool")).map_or(0, Iterator::count)
}

#[test]
fn the_pool_holds_no_more_than_it_should() {
    let bench = bench_with(2);
    for task in ["a", "b", "c"] {
        bench.lane(task);
    }
    for task in ["a", "b", "c"] {
        let_go(&bench, task);
    }
    assert_eq!((bench.lanes.pooled().len(), pooled_dirs(&bench)), (2, 2));
    let listed = bench.scratch.git(["worktree", "list", "--porcelain"]);
    assert!(!listed.contains(".pool"), "git knows nothing of them: {listed}");
    // The user wants fewer.
    let fewer = bench.lanes.clone().with_pool(options(1));
    assert_eq!((fewer.fit_pool().unwrap(), fewer.pooled().len(), pooled_dirs(&bench)), (1, 1, 1));
    assert_eq!((fewer.trim_pool(0).unwrap(), pooled_dirs(&bench)), (1, 0));
    assert!(!bench.lanes.root().join(".pool").exists());
}

#[test]
fn nothing_is_pooled_where_the_user_wants_no_pool_or_the_disk_is_low() {
    let bench = bench_with(0);
    bench.lane("a");
    let_go(&bench, "a");
    assert_eq!(bench.lanes.pooled().len(), 0);

    let mut low = options(4);
    low.min_free_disk_gb = Some(1e9);
    let bench = with(bench, |lanes| lanes.with_pool(low));
    bench.lane("a");
    let_go(&bench, "a");
    assert_eq!((bench.lanes.pooled().len(), pooled_dirs(&bench)), (0, 0));
}

#[test]
fn a_small_tree_is_only_worth_keeping_for_what_was_built_in_it() {
    let bench = with(bench(), |lanes| lanes.with_pool(PoolOptions::new(4, &[], &[])));
    bench.lane("a");
    let_go(&bench, "a");
    assert_eq!(bench.lanes.pooled().len(), 0);
    for n in 0..300 {
        bench.scratch.write(format!("many/{n}"), "x\n");
    }
    bench.scratch.commit_all("many files");
    bench.lane("a");
    let_go(&bench, "a");
    assert_eq!(bench.lanes.pooled().len(), 1);
}

fn with(bench: Bench, change: impl FnOnce(Lanes) -> Lanes) -> Bench {
    let Bench { scratch, repo, work, lanes } = bench;
    Bench { scratch, repo, work, lanes: change(lanes) }
}

#[test]
fn a_tree_that_a_process_has_open_is_left_alone() {
    for (what, script) in [
        ("its directory", "cd '{}' && echo in && read x"),
        ("an open file", "exec 3<'{}/README.md' && echo in && read x"),
        ("a running program", "'{}/target/program' && read x"),
    ] {
        let bench = bench();
        let lane = bench.lane("a");
        write(&lane.path.join("target/program"), "#!/bin/sh\necho in; exec sleep 1000\n");
        if what == "a running program" {
            fs::copy("/bin/sleep", lane.path.join("target/program")).unwrap();
        }
        let_go(&bench, "a");
        let path = bench.lanes.pooled()[0].path.clone();
        let kept = directory(&path);
        let mut holder = if what == "a running program" {
            Command::new(path.join("target/program")).arg("1000").spawn().unwrap()
        } else {
            let script = script.replace("{}", path.to_str().unwrap());
            let mut child =
                Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut said = [0; 3];
            let out = child.as_mut().unwrap().stdout.as_mut().unwrap();
            std::io::Read::read_exact(out, &mut said).unwrap();
            child.unwrap()
        };
        let lane = bench.lane("b");
        assert_ne!(directory(&lane.path), kept, "{what}");
        assert!(lane.warnings.iter().any(|note| note.contains("has it open")), "{what}: {:?}", lane.warnings);
        assert_eq!(bench.lanes.pooled().len(), 1, "{what}: it is still there");
        holder.kill().unwrap();
        holder.wait().unwrap();
        let lane = bench.lane("c");
        assert_eq!(directory(&lane.path), kept, "{what}");
        assert_eq!(lane.warnings, Vec::<String>::new());
    }
}

#[test]
fn many_at_once_never_get_the_same_tree() {
    let bench = bench_with(6);
    let base = bench.rev("main");
    for n in 0..6 {
        bench.lane(&format!("first{n}"));
    }
    for n in 0..6 {
        let_go(&bench, &format!("first{n}"));
    }
    assert_eq!(bench.lanes.pooled().len(), 6);
    for round in 0..3 {
        let seen: BTreeSet<_> = std::thread::scope(|scope| {
            let lanes = (0..8).map(|n| {
                let (lanes, base) = (&bench.lanes, &base);
                scope.spawn(move || {
                    directory(&lanes.prepare(&id(&format!("t{round}-{n}")), base).unwrap().path)
                })
            });
            lanes.collect::<Vec<_>>().into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        assert_eq!(seen.len(), 8);
        std::thread::scope(|scope| {
            for n in 0..8 {
                let bench = &bench;
                scope.spawn(move || let_go(bench, &format!("t{round}-{n}")));
            }
        });
        assert_eq!(pooled_dirs(&bench), bench.lanes.pooled().len());
        assert!(bench.lanes.pooled().len() <= 6);
    }
}

#[test]
fn what_a_killed_process_held_goes_and_is_nobodys_lane() {
    let bench = bench();
    for task in ["a", "b"] {
        bench.lane(task);
    }
    for task in ["a", "b"] {
        let_go(&bench, task);
    }
    let held = bench.lanes.pooled()[1].number;
    let record = bench.repo.state_dir.join(format!("pool/{held}.json"));
    let text = fs::read_to_string(&record).unwrap();
    let nobody = r#""held_by":{"boot_id":"another","pid":1,"starttime":1}"#;
    fs::write(&record, text.replace(r#""held_by":null"#, nobody)).unwrap();
    // A directory of which nobody knows anything, and a record without one.
    write(&bench.lanes.root().join(".pool/77/x"), "x\n");
    fs::copy(&record, bench.repo.state_dir.join("pool/88.json")).unwrap();
    // What was being written when somebody was killed.
    write(&bench.repo.state_dir.join("pool/99.index"), "x");
    write(&bench.repo.state_dir.join("pool/99.json.1-1.tmp"), "x");
    let lane = bench.lane("c");
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
    assert_eq!(bench.lanes.pooled().len(), 2, "it took the one that was free");
    bench.lanes.fit_pool().unwrap();
    assert_eq!((bench.lanes.pooled().len(), pooled_dirs(&bench)), (0, 0));
    let left = fs::read_dir(bench.repo.state_dir.join("pool")).unwrap().flatten();
    let left: BTreeSet<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(left, BTreeSet::from(["counter", "lock"].map(str::to_owned)));
}

#[test]
fn a_gate_gives_back_what_it_leased_and_an_old_lease_touches_nothing() {
    let bench = bench();
    let base = bench.rev("main");
    let (one, two) = (bench.lanes.lease(&base).unwrap(), bench.lanes.lease(&base).unwrap());
    assert_ne!(one.path, two.path);
    write(&one.path.join("left by a test"), "x\n");
    let tree = directory(&one.path);
    one.give_back().unwrap();
    assert_eq!(bench.lanes.pooled().len(), 1);
    let lane = bench.lane("a");
    assert_eq!(directory(&lane.path), tree, "a task goes on with what a gate had");
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
    drop(two);
    assert_eq!(bench.lanes.pooled().len(), 1, "one that is let go comes back too");

    let leased = bench.lanes.lease(&base).unwrap();
    // Somebody took it away and made another one in its place.
    let records = bench.repo.state_dir.join("lanes");
    let record = records.join(format!("{}.json", leased.task));
    let text = fs::read_to_string(&record).unwrap();
    let at = text.find("\"fence\":").unwrap() + 8;
    fs::write(&record, format!("{}9{}", &text[..at], &text[at..])).unwrap();
    let path = leased.path.clone();
    let refused = leased.give_back().unwrap_err();
    assert!(refused.to_string().contains("another process took it first"), "{refused}");
    assert!(path.join("README.md").exists());
}
