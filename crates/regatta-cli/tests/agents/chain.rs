//! A chain driven by the real claude: a reviewer that answers nonsense, an accepter that asks for changes.

use regatta_testkit::api::{Said, Script, Turn, tag};
use regatta_testkit::repo::write;
use regatta_testkit::world::text;

use crate::scene::{DONE, Scene};

const NONSENSE: &str = "Lovely work, ten out of ten! {verdict: splendid}";
const APPROVE: &str = "I read it.\n{\"verdict\":\"approve\",\"summary\":\"It holds.\"}";
const CHANGES: &str =
    r#"{"verdict":"request-changes","summary":"It is too short.","findings":["a.txt:1: say more"]}"#;

#[test]
fn a_claude_that_answers_nonsense_lands_nothing_and_one_that_objects_is_heard() {
    let mut scene = Scene::new();
    let work = |text: &str| Turn::run(&format!("echo {text} >>a.txt && {DONE}"));
    let turns = [work("short"), Turn::say("It is done."), work("more"), Turn::say("It is longer now.")];
    scene.task("a", "claude", "chain: [review, accept]\nmax_attempts: 2", Script::of(turns));
    for link in ["review", "accept"] {
        let name = format!("a.{link}");
        let template = format!("{} Look at {{{{head}}}}: {{{{changes}}}}\n{{{{prompt}}}}\n", tag(&name));
        write(&scene.world.state_dir().join(format!("templates/{link}.md")), template);
    }
    // The state directory was made by hand.
    scene.world.regatta(["trust", "--yes"]).exited(0);
    scene.api.script("a.review", Script::always(Turn::say(NONSENSE)));
    scene.api.script("a.accept", Script::of([Turn::say(CHANGES), Turn::say(APPROVE)]));
    let plan = scene.plan();
    scene.world.run(&plan, &[]).exited(1);
    scene.world.assert_states(["a done", "a.accept pending", "a.review blocked"]);
    assert_eq!(scene.world.landed("a.txt"), None);
    assert!(text(&scene.world.task("a.review")["reason"]).starts_with("verdict: no verdict was found"));
    let sessions = scene.sessions("a.review");
    assert!(
        sessions.len() == 2 && sessions[0] == sessions[1],
        "asked again in its conversation: {sessions:?}"
    );

    scene.api.script("a.review", Script::always(Turn::say(APPROVE)));
    scene.world.run(&plan, &["--resume"]).exited(0);
    scene.world.assert_states(["a landed", "a.accept done", "a.review done"]);
    assert_eq!(scene.world.landed("a.txt").as_deref(), Some("short\nmore\n"));
    let sessions = scene.sessions("a");
    assert!(sessions.len() == 2 && sessions[0] == sessions[1], "the builder goes on: {sessions:?}");
    let told = |said: &Said| matches!(said, Said::User(text) if text.contains("It is too short.\n- a.txt:1: say more"));
    assert!(scene.last_said("a").iter().any(told), "{:#?}", scene.last_said("a"));
    let reviews = scene.sessions("a.review");
    assert_ne!(reviews.last(), reviews.first(), "another edition is read by fresh eyes");
    scene.assert_alone();
}
