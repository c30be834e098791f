//! Work that goes well, and work that goes wrong on the way.

use regatta_testkit::api::{Script, Turn};

use crate::scene::Scene;

const DONE: &str = "regatta done --verdict pass --summary 'Did it'";

#[test]
fn each_agent_edits_and_commits_and_its_work_lands() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let file = format!("{agent}.txt");
        let commit = format!("git add {file} && git commit -q -m 'By {agent}' && echo committed");
        let turns =
            [Turn::write(&file, "made\n"), Turn::run(&commit), Turn::run(DONE), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed", "gemini landed", "opencode landed"]);
    for agent in ["claude", "codex", "gemini", "opencode"] {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("made\n"));
        let asked = scene.api.asked(agent);
        let last = asked.last().expect("its model was asked");
        assert!(last.mentions("committed"), "{last:#?}");
    }
    scene.assert_tidy();
}
