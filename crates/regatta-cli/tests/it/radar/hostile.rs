use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{Crew, everything, radar, seen, world};

#[test]
fn nothing_that_an_agent_planted_runs_while_its_lane_is_looked_at() {
    let world = world();
    let tasks = [
        ("evil", "", "sed -i s/^1/one/ nine.txt"),
        ("good", "", "sed -i s/^1/eins/ nine.txt; git commit -qam good"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    let lane = world.lanes().join("evil");
    let trap = world.outside("sprung");
    let spring = world.outside("spring.sh");
    regatta_testkit::repo::script(&spring, &format!("touch '{}'\ncat", trap.display()));
    let spring = spring.to_str().unwrap();
    for (key, value) in [
        ("filter.evil.clean", spring),
        ("filter.evil.smudge", spring),
        ("filter.evil.process", spring),
        ("filter.evil.required", "true"),
        ("merge.evil.driver", spring),
        ("merge.default", "evil"),
        ("diff.evil.textconv", spring),
        ("diff.evil.command", spring),
        ("diff.external", spring),
        ("core.fsmonitor", spring),
        ("core.pager", spring),
        ("core.hooksPath", world.outside("hooks").to_str().unwrap()),
        ("core.sshCommand", spring),
        ("core.alternateRefsCommand", spring),
        ("gpg.program", spring),
        ("commit.gpgSign", "true"),
    ] {
        world.repo().git_in(&lane, ["config", key, value]);
    }
    for dir in [world.outside("hooks"), world.root().join(".git/hooks")] {
        fs::create_dir_all(&dir).unwrap();
        for hook in ["pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"] {
            fs::copy(spring, dir.join(hook)).unwrap();
            fs::set_permissions(dir.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    fs::write(lane.join(".gitattributes"), "* filter=evil merge=evil diff=evil\n").unwrap();
    fs::write(world.root().join(".git/info/attributes"), "* filter=evil merge=evil diff=evil\n").unwrap();
    let before = everything(&world);
    let document = radar(&world, &[]);
    assert_eq!(seen(&document), ["evil good conflict nine.txt"]);
    assert_eq!(document["unread"], json!([]));
    assert!(!trap.exists(), "something that was planted ran");
    assert_eq!(everything(&world), before);
    // Unreadable files, an invalid index, a link out of the lane: no reason to fail.
    std::os::unix::fs::symlink("/etc/passwd", lane.join("link")).unwrap();
    fs::create_dir_all(lane.join("nested/.git")).unwrap();
    let index = world.root().join(".git/worktrees");
    let index = fs::read_dir(index).unwrap().flatten().map(|entry| entry.path());
    let of_evil = |dir: &std::path::PathBuf| {
        fs::read_to_string(dir.join("gitdir")).is_ok_and(|text| text.contains("/evil/"))
    };
    let index = index.into_iter().find(of_evil).unwrap().join("git/index");
    assert_eq!(seen(&radar(&world, &[])), ["evil good conflict nine.txt"]);
    let kept = fs::read(&index).unwrap();
    fs::write(&index, "no index").unwrap();
    let broken = radar(&world, &[]);
    assert_eq!(broken["unread"][0]["task"], "evil", "{broken}");
    fs::write(&index, kept).unwrap();
    assert!(!trap.exists());
    // The run itself refuses none of it either; what it does with the lane does not matter here.
    for (key, _) in [("core.hooksPath", ""), ("commit.gpgSign", "")] {
        world.repo().git_in(&lane, ["config", "--unset", key]);
    }
    crew.finish();
    assert!(!trap.exists());
}
