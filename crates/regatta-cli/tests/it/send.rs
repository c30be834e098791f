//! Follow-ups: said while an agent is at work or after its task has ended, told in its own conversation, in order.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{Barrier, World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// Claude as a script: keeps its conversation where claude does, notes what it is told, does what `NOTES/work.ID` says,
/// and says so.
const CLAUDE: &str = r#"case "$*" in *--session-id*) id=${*##*--session-id }; how=new ;; *) id=${*##*--resume }; how=resume ;; esac
id=${id%% *}; notes=NOTES
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"; touch "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
echo "$REGATTA_ATTEMPT $how $id $PWD" >>"$notes/argv.$REGATTA_TASK"; cat >"$notes/stdin.$REGATTA_TASK.$REGATTA_ATTEMPT"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
. "$notes/work.$REGATTA_TASK"
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":1}}'"#;

/// Each attempt leaves a file of its own and passes.
const PASSES: &str = r#"echo "$REGATTA_ATTEMPT" >"$REGATTA_TASK.$REGATTA_ATTEMPT"
regatta done --verdict pass --summary "Attempt $REGATTA_ATTEMPT" >&2
"#;

struct Scene {
    world: World,
}

impl Scene {
    fn new(config: &str) -> Self {
        let mut world = World::new(REGATTA);
        let notes = world.outside("notes");
        fs::create_dir_all(&notes).unwrap();
        script(&world.outside("bin/claude"), &CLAUDE.replace("NOTES", &notes.display().to_string()));
        let path =
            format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
        let config_dir = world.outside("claude-config");
        world.env("PATH", path).env("CLAUDE_CONFIG_DIR", config_dir);
        world.config(config);
        Self { world }
    }

    /// A task for claude, and what its attempts do.
    fn add(&self, id: &str, keys: &str, work: &str) {
        fs::write(self.world.outside(&format!("notes/work.{id}")), work).unwrap();
        let plan =
            self.world.plan_with("", &task(id, &format!("agent: claude\n{keys}"), &format!("do {id}")));
        self.world.enqueue(&plan);
    }

    /// The same, held at a barrier in its first attempt.
    fn add_held(&self, id: &str, keys: &str, work: &str) -> Barrier {
        let barrier = self.world.barrier(id);
        let held = format!("[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n{work}", barrier.script());
        self.add(id, keys, &held);
        barrier.arrived();
        self.world.wait_state(id, "running");
        barrier
    }

    fn send(&self, id: &str, prompt: &str) -> Value {
        let ran = self.world.regatta(["send", "--json", id, prompt]).exited(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// What an attempt was told.
    fn told(&self, id: &str, attempt: u32) -> String {
        fs::read_to_string(self.world.outside(&format!("notes/stdin.{id}.{attempt}"))).unwrap()
    }

    /// Attempt, `new` or `resume`, conversation, directory; of every attempt.
    fn starts(&self, id: &str) -> Vec<[String; 4]> {
        let argv = fs::read_to_string(self.world.outside(&format!("notes/argv.{id}"))).unwrap();
        argv.lines()
            .map(|line| {
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                words.try_into().unwrap()
            })
            .collect()
    }

    /// Every attempt after the first went on with the first one's conversation, in the same directory.
    #[track_caller]
    fn assert_one_conversation(&self, id: &str, attempts: usize) {
        let starts = self.starts(id);
        assert_eq!(starts.len(), attempts, "{starts:?}");
        for (n, [attempt, how, session, lane]) in starts.iter().enumerate() {
            assert_eq!(*attempt, (n + 1).to_string(), "{starts:?}");
            assert_eq!(how, if n == 0 { "new" } else { "resume" }, "{starts:?}");
            assert_eq!((session, lane), (&starts[0][2], &starts[0][3]), "{starts:?}");
        }
    }

    /// `state attempt` of each of the task's follow-ups.
    fn prompts(&self, id: &str) -> Vec<String> {
        let db = self.world.database();
        let sql =
            "select p.state || ' ' || coalesce(p.attempt, '-') from prompt p join task t on t.seq = p.task
                   where t.id = ?1 order by p.n";
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map([id], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

#[test]
fn what_is_said_while_an_agent_works_is_told_in_order_in_its_conversation_and_lands_with_its_work() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let barrier = scene.add_held("a", "", PASSES);
    let first = scene.send("a", "Also write a test.");
    assert_eq!(
        (&first["dispatched"], &first["queued_count"], &first["position"]),
        (&false.into(), &1.into(), &1.into())
    );
    let second = scene.send("a", "/review it");
    assert_eq!(
        (text(&second["task_id"]), &second["position"], text(&second["state"])),
        ("a", &2.into(), "running")
    );
    assert!(world.trees_in_lane("a").len() == 1, "one live process per lane");
    barrier.open();
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 3);
    assert!(scene.told("a", 1).starts_with("do a"));
    assert!(scene.told("a", 2).starts_with("Also write a test.\n"), "{}", scene.told("a", 2));
    assert!(scene.told("a", 3).starts_with("/review it\n"), "{}", scene.told("a", 3));
    assert_eq!(scene.prompts("a"), ["told 2", "told 3"]);
    for n in 1..=3 {
        assert_eq!(world.landed(&format!("a.{n}")), Some(format!("{n}\n")));
    }
    assert_eq!(world.events_of("a", "approved"), 1, "it landed once, with everything\n{}", world.log());
    assert_eq!(world.attempt("a", 2)["prompt"], 1);
    assert_eq!(world.attempt("a", 1)["verdict"], "pass", "what the attempts before came to is kept");
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn a_task_that_landed_is_followed_up_on_what_is_there_now() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", PASSES);
    world.wait_state("a", "landed");
    until("its lane is gone", || world.lane_dirs().is_empty().then_some(()));
    let sent = scene.send("a", "And document it.");
    assert_eq!((&sent["dispatched"], &sent["position"]), (&true.into(), &1.into()), "{sent:#}");
    until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 2);
    assert_eq!((world.commits_of("a.1"), world.commits_of("a.2")), (1, 1), "each landed once");
    assert_eq!(world.events_of("a", "approved"), 2);
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}
