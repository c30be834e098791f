//! The forge does not answer, or not as it should: cars wait with a sentence, and go on.

use regatta_testkit::forge::{Ci, Conclusion, Fault};
use regatta_testkit::world::task;

use super::Scene;

const GREEN: &str = "pr: { merge: green }";

/// One fault at one request is survived: one pull request, one merge.
fn survives(pattern: &str, times: usize, fault: Fault) {
    let scene = Scene::new(GREEN);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let what = format!("{pattern} {fault:?}");
    scene.forge.next_times(pattern, times, fault);
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.forge.faults_left(), Vec::<String>::new(), "{what}");
    scene.ends(daemon);
    scene.assert_whole(1, &what);
    assert_eq!(scene.world.commits_of("a.txt"), 1, "{what}");
}

#[test]
fn answers_that_are_lost_or_bad_are_survived() {
    const OPEN: &str = "POST /repos/*/pulls";
    const MERGE: &str = "PUT /repos/*/merge";
    std::thread::scope(|scope| {
        scope.spawn(|| survives(OPEN, 1, Fault::Status(502)));
        scope.spawn(|| survives(OPEN, 1, Fault::Lost));
        scope.spawn(|| survives(MERGE, 1, Fault::Status(502)));
        scope.spawn(|| survives(MERGE, 1, Fault::Lost));
        scope.spawn(|| survives("POST /graphql Feedback", 1, Fault::Status(502)));
        scope.spawn(|| survives("POST /graphql Watch", 2, Fault::Status(502)));
    });
}

#[test]
fn a_limit_is_said_once_and_nothing_is_asked_meanwhile() {
    let scene = Scene::new(GREEN);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    scene.forge.next_times("POST /repos/*/pulls", 1, Fault::Secondary { retry_after: 600 });
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.said("GitHub is not asked again before");
    let before = scene.forge.calls().len();
    // Another task comes and goes as far as it can without the forge.
    scene.world.enqueue(&scene.world.plan(&task("b", "", "echo b >b.txt")));
    scene.world.wait_state("b", "landing");
    assert!(scene.times_said("not asked again") <= 2, "once for each of the two");
    assert_eq!(scene.forge.calls().len(), before);
    scene.ends(daemon);
}

#[test]
fn an_outage_is_said_once() {
    let scene = Scene::new(GREEN);
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let mut daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.is_open(1);
    scene.forge.next_times("POST /graphql Watch", 50, Fault::Status(502));
    scene.said("GitHub cannot be reached: github.localhost answered 502");
    // A second look at the end of a pause says nothing new.
    daemon.signal("TERM");
    daemon.wait();
    daemon = scene.world.daemon();
    assert_eq!(scene.times_said("GitHub cannot be reached"), 1);
    assert_eq!(scene.times_said("GitHub is not asked again"), 0);
    scene.ends(daemon);
}

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

#[test]
fn a_repository_that_is_renamed_while_a_pull_request_is_open_is_followed() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.is_open(1);
    scene.said("checks 0/1");
    scene.forge.as_user("acme").rename_repo("boutique");
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    // Another one is opened under the new name.
    scene.world.enqueue(&scene.world.plan(&task("b", "", "echo b >b.txt")));
    scene.forge.wait_for("the second is open", |state| state.repos()[0].pull(2).map(drop));
    scene.forge.check(2, "ci", Conclusion::Success);
    scene.world.wait_state("b", "landed");
    assert_eq!(scene.forge.read(|state| state.repos()[0].pulls().count()), 2);
    scene.assert_nothing_forced("renamed");
    scene.ends(daemon);
}

#[test]
fn a_list_that_lags_behind_leads_to_no_second_pull_request() {
    let mut scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    // Opened, and not recorded; the list that is asked then was made before.
    scene.forge.next_times("GET /repos/acme/shop/pulls", 2, Fault::Lag);
    scene.world.env("REGATTA_FAILPOINT", "pr-opened");
    let plan = scene.world.plan(&task("a", "", "echo a >a.txt"));
    assert_eq!(scene.world.run(&plan, &[]).code, 137);
    scene.world.env("REGATTA_FAILPOINT", "");
    let daemon = scene.world.daemon();
    scene.world.run(&plan, &["--resume"]);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "a list that lags");
    assert_eq!(scene.forge.faults_left(), [""; 0]);
}
