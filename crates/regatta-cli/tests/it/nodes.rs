//! Nodes: who a machine is.

use std::os::unix::fs::PermissionsExt;

use regatta_testkit::repo::write;
use regatta_testkit::world::World;

use crate::REGATTA;

/// A world whose user has a state and a configuration of their own.
fn world() -> World {
    let mut world = World::new(REGATTA);
    let (state, config) = (world.outside("state"), world.outside("config"));
    world.env("XDG_STATE_HOME", state).env("XDG_CONFIG_HOME", config);
    world
}

#[test]
fn a_machine_has_one_id_for_good() {
    let world = world();
    world.run_plan(regatta_testkit::world::PLAN).exited(1);
    let path = world.outside("state/regatta/node");
    let id = std::fs::read_to_string(&path).unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    world.regatta(["run", "--again", &world.outside("plan.md").display().to_string()]).exited(1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), id);
}

#[test]
fn node_yaml_names_the_machine_and_limits_its_workers() {
    let world = world();
    write(&world.outside("config/regatta/node.yaml"), "name: big-1\nlabels: [gpu]\nslots: 7\n");
    world.config("max_workers: 3\n");
    let setting = |env: &[(&str, &str)]| {
        let settings = world.regatta_with(env, ["config", "--json"]).exited(0).json();
        let settings = settings.as_array().unwrap().clone();
        settings.into_iter().find(|setting| setting["key"] == "max_workers").unwrap()
    };
    assert_eq!(setting(&[]), serde_json::json!({ "key": "max_workers", "value": 7, "origin": "node" }));
    assert_eq!(setting(&[("REGATTA_MAX_WORKERS", "2")])["value"], 2);
}

#[test]
fn a_mistake_in_node_yaml_is_refused_with_its_place() {
    let world = world();
    write(&world.outside("config/regatta/node.yaml"), "name: big-1\nlables: [gpu]\n");
    let refused = world.regatta(["list"]).exited(2).stderr;
    assert!(refused.contains("config/regatta/node.yaml:2:1: error: unknown key `lables`"), "{refused}");
    assert!(refused.contains("did you mean `labels`?"), "{refused}");
}
