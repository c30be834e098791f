//! The forge does not answer, or not as it should: cars wait with a sentence, and go on.

use regatta_testkit::forge::Ci;
use regatta_testkit::world::task;

use super::Scene;

const GREEN: &str = "pr: { merge: green }";

#[test]
fn a_bad_login_holds_only_what_needs_it_until_it_is_good() {
    let scene = Scene::new(GREEN);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let token = scene.forge.token("octo");
    scene.forge.new_token("octo", "gho_another");
    let tasks = [task("a", "", "echo a >a.txt"), task("b", "via: here", "echo b >b.txt")].concat();
    let daemon = scene.begin(&tasks);
    scene.world.wait_state("b", "landed");
    scene.world.wait_state("a", "landing");
    scene.said("\"wait\"");
    scene.forge.new_token("octo", &token);
    // What landed here is not there yet, and the other work is not built on it.
    scene.world.git(["push", "-q", "origin", "main"]);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "a bad login");
}

#[test]
fn without_gh_the_task_waits_with_a_sentence_until_it_is_there() {
    let mut scene = Scene::new(GREEN);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    // A PATH with everything but gh, which is put there later.
    let bin = scene.world.outside("bin");
    std::fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut gh = None;
    for dir in std::env::split_paths(&path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let to = bin.join(entry.file_name());
            if entry.file_name() == "gh" {
                gh = gh.or(Some((entry.path(), to)));
            } else if !to.exists() {
                let _ = std::os::unix::fs::symlink(entry.path(), to);
            }
        }
    }
    scene.world.env("PATH", &bin);
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.said("gh");
    scene.world.wait_state("a", "landing");
    let (from, to) = gh.expect("gh is installed");
    std::os::unix::fs::symlink(from, to).unwrap();
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "without gh");
}
