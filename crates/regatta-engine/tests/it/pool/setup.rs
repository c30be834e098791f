use std::fs;

use regatta_engine::lanes::Lane;
use regatta_testkit::repo::write;

use super::{bench, differences, let_go};
use crate::fixture::{Bench, id};

fn next(bench: &Bench, task: &str) -> Lane {
    bench.lanes.prepare(&id(task), &bench.rev("main")).unwrap()
}

fn key(bench: &Bench, lane: &Lane) -> String {
    bench.lanes.setup_key(lane, "make deps").unwrap()
}

/// Sets the lane up, as the engine would.
fn set_up(bench: &Bench, lane: &Lane) {
    write(&lane.path.join("node_modules/dep/index.js"), "1\n");
    bench.lanes.mark_set_up(lane, key(bench, lane)).unwrap();
}

#[test]
fn declared_build_directories_stay_and_others_do_not() {
    let bench = bench();
    let lane = bench.lane("a");
    for name in ["target/debug/a.o", "src/lib/target/b.o", "docs/old/node_modules/x/y.js", "build.log/c.o"] {
        write(&lane.path.join(name), "built\n");
    }
    let_go(&bench, "a");
    bench.scratch.write("src/main.c", "changed\n");
    bench.scratch.commit_all("more");
    let lane = next(&bench, "b");
    for name in ["target/debug/a.o", "src/lib/target/b.o", "docs/old/node_modules/x/y.js"] {
        assert_eq!(fs::read_to_string(lane.path.join(name)).unwrap(), "built\n", "{name}");
        fs::remove_dir_all(lane.path.join(name).ancestors().nth(2).unwrap().join("x")).ok();
    }
    for dir in ["target", "src/lib/target", "docs/old/node_modules"] {
        fs::remove_dir_all(lane.path.join(dir)).unwrap();
    }
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
}

#[test]
fn a_build_directory_that_git_would_see_goes() {
    let bench = bench();
    let lane = bench.lane("a");
    write(&lane.path.join("target/x"), "built\n");
    write(&lane.path.join("src/new/node_modules/x"), "built\n");
    let_go(&bench, "a");
    bench.scratch.write(".gitignore", "*.log\n");
    bench.scratch.commit_all("nothing is ignored any more");
    let lane = next(&bench, "b");
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
}

#[test]
fn a_base_that_holds_files_in_a_build_directory_gets_a_fresh_lane() {
    let bench = bench();
    let lane = bench.lane("a");
    write(&lane.path.join("target/x"), "built\n");
    let_go(&bench, "a");
    bench.scratch.write("target/x", "tracked\n");
    bench.scratch.git(["add", "-f", "target/x"]);
    bench.scratch.commit_all("work");
    let lane = next(&bench, "b");
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
}

#[test]
fn a_base_with_other_attributes_gets_a_fresh_lane() {
    let bench = bench();
    bench.lane("a");
    let_go(&bench, "a");
    bench.scratch.write(".gitattributes", "*.md text eol=crlf\n");
    bench.scratch.git(["add", ".gitattributes"]);
    bench.scratch.commit_all("other line ends");
    let lane = next(&bench, "b");
    assert_eq!(fs::read_to_string(lane.path.join("docs/page.md")).unwrap(), "page\r\n");
    assert_eq!(differences(&bench, &lane), Vec::<String>::new());
}

#[test]
fn setup_is_not_run_again_while_its_inputs_and_what_it_built_are_the_same() {
    let bench = bench();
    let lane = bench.lane("a");
    assert!(!lane.is_set_up(&key(&bench, &lane)), "a fresh lane has to be set up");
    set_up(&bench, &lane);
    let_go(&bench, "a");
    bench.scratch.write("docs/page.md", "no input of it\n");
    bench.scratch.commit_all("other files");
    let lane = next(&bench, "b");
    assert!(lane.is_set_up(&key(&bench, &lane)));
    assert!(!lane.is_set_up(&bench.lanes.setup_key(&lane, "make more").unwrap()), "another command");
    // As the engine does: what holds in this lane holds for the one after it.
    bench.lanes.mark_set_up(&lane, key(&bench, &lane)).unwrap();
    let_go(&bench, "b");

    bench.scratch.write("deps.lock", "two\n");
    bench.scratch.commit_all("an input changed");
    let lane = next(&bench, "c");
    assert!(!lane.is_set_up(&key(&bench, &lane)));
}

#[test]
fn setup_is_run_again_where_its_outcome_may_be_another_one() {
    type Deed = fn(&Lane);
    let cases: &[(&str, Deed)] = &[
        ("what it built is gone", |lane| fs::remove_dir_all(lane.path.join("node_modules")).unwrap()),
        ("a link stands for it", |lane| {
            fs::rename(lane.path.join("node_modules"), lane.path.join("target")).unwrap();
            std::os::unix::fs::symlink("target", lane.path.join("node_modules")).unwrap();
        }),
        ("an input was changed", |lane| write(&lane.path.join("deps.lock"), "three\n")),
        ("an input was added", |lane| write(&lane.path.join("src/deps.lock"), "more\n")),
        ("an input was removed", |lane| fs::remove_file(lane.path.join("deps.lock")).unwrap()),
    ];
    for (what, deed) in cases {
        let bench = bench();
        let lane = bench.lane("a");
        set_up(&bench, &lane);
        deed(&lane);
        let_go(&bench, "a");
        let lane = next(&bench, "b");
        assert!(!lane.is_set_up(&key(&bench, &lane)), "{what}");
    }
}

#[test]
fn without_declared_inputs_or_anything_kept_setup_always_runs() {
    let bench = bench();
    let lane = bench.lane("a");
    // It built nothing that stays.
    bench.lanes.mark_set_up(&lane, key(&bench, &lane)).unwrap();
    let_go(&bench, "a");
    let lane = next(&bench, "b");
    assert!(!lane.is_set_up(&key(&bench, &lane)));
    bench.scratch.git(["rm", "-q", "deps.lock"]);
    bench.scratch.commit_all("no such input");
    let lane = next(&bench, "c");
    assert_eq!(bench.lanes.setup_key(&lane, "make deps"), None, "a declared input that is not there");
}
