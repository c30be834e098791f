//! Several clones with one store and one hub: tasks are built wherever there is room, continue where another clone left
//! them, and land once.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::daemon::{is_alive, until};
use regatta_testkit::postgres::Server;
use regatta_testkit::world::{Running, World, task, text};

use super::REGATTA;

/// Clones of one hub that use one store.
struct Fleet {
    worlds: Vec<World>,
    hub: PathBuf,
}

impl Fleet {
    /// This many clones, each with its own home, and an agent at a time.
    fn new(project: &str, n: usize) -> Self {
        let mut worlds: Vec<World> = (0..n).map(|_| World::new(REGATTA)).collect();
        let first = &worlds[0];
        let hub = first.outside("hub.git");
        first.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", shown(&hub)]);
        first.repo().git(["push", "--quiet", shown(&hub), "main"]);
        let store = Server::shared().url(&format!("fleet_{project}"));
        for (n, world) in worlds.iter_mut().enumerate() {
            let name = format!("node-{}", n + 1);
            let settings = world.outside("home/.config/regatta/node.yaml");
            fs::create_dir_all(settings.parent().unwrap()).unwrap();
            fs::write(settings, format!("name: {name}\n")).unwrap();
            world.env("REGATTA_STORE", &store);
            world.env("REGATTA_HUB", &hub);
            world.env("REGATTA_MAX_WORKERS", "1");
        }
        let fleet = Self { worlds, hub };
        for world in &fleet.worlds {
            assert_eq!(world.repo().rev("main"), fleet.at_hub("main"), "clones of one commit");
        }
        fleet
    }

    /// With a lease of six seconds, and checkpoints every 200 ms.
    fn leased(project: &str, n: usize) -> Self {
        let mut fleet = Self::new(project, n);
        for world in &mut fleet.worlds {
            world.env("REGATTA_TEST_FENCE_MS", "4000");
            world.env("REGATTA_TEST_CHECKPOINT_MS", "200");
        }
        fleet
    }

    fn git(&self, args: &[&str]) -> String {
        self.worlds[0].repo().git_in(&self.hub, args)
    }

    fn at_hub(&self, name: &str) -> String {
        self.git(&["rev-parse", name])
    }

    /// The refs at the hub below a prefix.
    fn refs(&self, prefix: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname)", prefix]);
        listed.lines().map(str::to_owned).collect()
    }

    /// A file of a commit at the hub.
    fn file(&self, commit: &str, path: &str) -> Option<String> {
        let shown = self.worlds[0].repo().try_git(&self.hub, &["show", &format!("{commit}:{path}")]);
        shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    fn state(&self, id: &str) -> String {
        let status = self.worlds[0].regatta(["status", id, "--json"]).exited(0).json();
        text(&status["state"]).to_owned()
    }

    fn wait_state(&self, id: &str, state: &str) {
        let mut last = String::new();
        until(&format!("{id} is {state}"), || {
            last = self.state(id);
            (last == state).then_some(())
        });
    }

    /// `attempt: node exit` for each attempt of a task.
    fn attempts(&self, id: &str) -> Vec<String> {
        let status = self.worlds[0].regatta(["status", id, "--json"]).exited(0).json();
        let attempts = status["attempts"].as_array().cloned().unwrap_or_default();
        attempts.iter().map(|attempt| format!("{}: {}", attempt["n"], attempt["exit"])).collect()
    }

    /// Every task that the history of the target has, once for each landing.
    fn landed(&self) -> Vec<String> {
        let format = "--format=%(trailers:key=Regatta-Task,valueonly,separator=%x2C)";
        let log = self.git(&["log", "--reverse", format, "main"]);
        log.lines().filter(|task| !task.is_empty()).map(str::to_owned).collect()
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn tasks_are_built_on_the_work_of_another_clone_and_land_at_the_hub() {
    let fleet = Fleet::new("shared", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let (in_one, in_two) = (one.barrier("one"), one.barrier("two"));
    // Which clone runs `first` is open; `beside` occupies it while the other one runs `second`.
    let tasks = [
        task("first", "auto_land: false", &format!("pwd >{}; echo 1 >first.txt", shown(&one.outside("first.at")))),
        task("second", "auto_land: true\ndeps: [first]", "cat first.txt >second.txt; echo 2 >>second.txt"),
    ];
    let _ = (&in_one, &in_two);
    let plan = one.plan(&tasks.concat());
    let first = one.daemon();
    one.enqueue(&plan);
    fleet.wait_state("first", "done");
    stop(first);
    assert_eq!(fleet.refs("refs/regatta/work/first/").len(), 1, "done means that it is at the hub");
    let second = two.daemon();
    fleet.wait_state("second", "landed");
    assert_eq!(fleet.file("main", "second.txt").as_deref(), Some("1\n2\n"));
    stop(second);
}
