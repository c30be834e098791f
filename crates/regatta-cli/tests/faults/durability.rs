//! What Regatta acknowledges is on the disk: the system calls of the real binary, in their order.

use std::fs;
use std::path::Path;

use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// From here on `regatta` writes its system calls, and those of its git, to a file.
fn traced(world: &mut World) -> std::path::PathBuf {
    let (wrapper, trace) = (world.outside("traced"), world.outside("calls"));
    let calls = "fsync,fdatasync,write,pwrite64,link,linkat,rename,renameat,renameat2";
    script(
        &wrapper,
        &format!("exec strace -f -y -qq -s 64 -e trace={calls} -o '{}' '{REGATTA}' \"$@\"", trace.display()),
    );
    world.use_program(&wrapper);
    trace
}

fn calls(trace: &Path) -> Vec<String> {
    let text = fs::read(trace)
        .unwrap_or_else(|error| panic!("strace is needed (scripts/test installs it): {error}"));
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

fn is_sync(call: &str, path: &str) -> bool {
    (call.contains(" fsync(") || call.contains(" fdatasync(")) && call.contains(&format!("{path}>"))
}

#[test]
fn no_task_is_acknowledged_before_the_log_of_the_store_is_on_the_disk() {
    let mut world = World::new(REGATTA);
    world.regatta(["init", "-q"]).exited(0);
    let trace = traced(&mut world);
    for n in 0..3 {
        world.regatta(["add", "true", "--agent", "sh", "--id", &format!("t{n}")]).exited(0);
        let calls = calls(&trace);
        let said = calls.iter().position(|call| call.contains(" write(1<") && call.contains("enqueued"));
        let said = said.expect("it says so");
        let wrote =
            calls[..said].iter().rposition(|call| call.contains(" pwrite64(") && call.contains("-wal>"));
        let wrote = wrote.expect("the store wrote its log");
        assert!(
            calls[wrote..said].iter().any(|call| is_sync(call, "regatta.db-wal")),
            "said before it was durable:\n{}",
            calls[wrote..=said].join("\n")
        );
    }
}

#[test]
fn what_has_landed_is_on_the_disk_objects_before_the_branch_and_the_branch_before_the_word() {
    let mut world = World::new(REGATTA);
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &["--no-land"]).exited(0);
    // Something on the target, so that a new commit has to be made.
    world.repo().commit_file("b.txt", "b\n", "b");
    let trace = traced(&mut world);
    world.regatta(["land", "a"]).exited(0);
    let calls = calls(&trace);
    let at =
        |what: &str, found: Option<usize>| found.unwrap_or_else(|| panic!("{what}:\n{}", calls.join("\n")));
    let renames = |call: &str| {
        [" link(", " linkat(", " rename(", " renameat(", " renameat2("].iter().any(|name| call.contains(name))
    };
    let moved = at(
        "the branch moves",
        calls.iter().position(|call| {
            renames(call) && call.contains("refs/heads/main.lock\"") && call.contains("refs/heads/main\"")
        }),
    );
    // Every object that was moved into place before was synced before.
    let objects: Vec<usize> = (0..moved)
        .filter(|n| {
            renames(&calls[*n]) && calls[*n].contains("/.git/objects/") && calls[*n].contains("tmp_obj_")
        })
        .collect();
    assert!(!objects.is_empty(), "{}", calls.join("\n"));
    for n in objects {
        let name = calls[n].split("tmp_obj_").nth(1).unwrap().split('"').next().unwrap();
        let written = calls[..n].iter().any(|call| is_sync(call, &format!("tmp_obj_{name}")));
        assert!(written, "{} was not written through", calls[n]);
    }
    let lock = at(
        "its file is written through",
        calls.iter().position(|call| is_sync(call, "refs/heads/main.lock")),
    );
    assert!(lock < moved);
    let dir = at(
        "its directory is written through",
        calls[moved..].iter().position(|call| is_sync(call, "refs/heads")).map(|n| n + moved),
    );
    let said =
        at("it says so", calls.iter().position(|call| call.contains(" write(1<") && call.contains("landed")));
    assert!(moved < dir && dir < said, "{moved} {dir} {said}");
}
