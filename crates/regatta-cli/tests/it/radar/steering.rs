//! What the radar found changes what starts next and what lands first, and both are visible.

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use super::{NINE, world};

/// `task kind` of the events of these kinds, in order.
fn happened(world: &World, kinds: &[&str]) -> Vec<String> {
    let events = world.regatta(["events", "--json"]).exited(0).stdout;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("one event per line"));
    events
        .filter(|event| kinds.contains(&text(&event["kind"])))
        .map(|event| text(&event["task"]).to_owned())
        .collect()
}

/// Tasks in the order in which they landed.
fn landed(world: &World) -> Vec<String> {
    let events = world.regatta(["events", "--json"]).exited(0).stdout;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("one event per line"));
    events
        .filter(|event| event["landing"]["kind"] == "landed")
        .map(|event| text(&event["task"]).to_owned())
        .collect()
}

/// The cars of `land status`, as people and as programs see them.
fn train(world: &World) -> [Vec<String>; 2] {
    let json = world.regatta(["land", "status", "--json"]).exited(0).stdout;
    let json: Value = serde_json::from_str(&json).expect("one document");
    let cars = json["cars"].as_array().expect("cars are a list").iter();
    let table = world.regatta(["land", "status"]).exited(0).stdout;
    let rows = table.lines().skip(2).take_while(|line| !line.is_empty());
    // Place, mark, car.
    let row = |line: &str| line.split_whitespace().nth(2).unwrap_or_default().to_owned();
    [rows.map(row).collect(), cars.map(|car| text(&car["id"]).to_owned()).collect()]
}

fn conflict_was_seen(world: &World, a: &str, b: &str) {
    until("the radar has seen the conflict", || {
        let seen = world.regatta(["radar", "--cached", "--json"]).exited(0).stdout;
        let seen: Value = serde_json::from_str(&seen).ok()?;
        let pair =
            |finding: &Value| finding["kind"] == "conflict" && finding["task"] == a && finding["with"] == b;
        seen["findings"].as_array()?.iter().any(pair).then_some(())
    });
}

#[test]
fn what_would_conflict_with_work_under_way_starts_after_what_would_not() {
    let world = world();
    world.config("radar: { interval: 100ms }\n");
    let [stays, first, between] = ["stays", "first", "between"].map(|name| world.barrier(name));
    let again = format!(
        "sed -i s/^1/eins/ nine.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {}; exit 3; fi",
        first.script()
    );
    let plan = [
        task("stays", "", &format!("sed -i s/^1/one/ nine.txt; {}", stays.script())),
        task("again", "max_attempts: 2", &again),
        task("between", "", &between.script()),
        task("apart", "", "echo apart >apart.txt"),
    ];
    let run = world.start(&world.plan(&plan.concat()), &["--no-dashboard", "--no-land", "-j", "2"]);
    stays.arrived();
    first.arrived();
    conflict_was_seen(&world, "again", "stays");
    first.open();
    // It fails and is to be tried again; while it waits, the next task has its worker.
    between.arrived();
    until("it could start, if there were a worker", || {
        let status = world.regatta(["status", "again", "--json"]).exited(0).stdout;
        let status: Value = serde_json::from_str(&status).ok()?;
        (text(&status["held"]) == "`max_workers` agents are running").then_some(())
    });
    between.open();
    world.wait_state("again", "done");
    stays.open();
    run.wait().exited(0);
    assert_eq!(happened(&world, &["claimed"]), ["stays", "again", "between", "apart", "again"]);
}

#[test]
fn a_declared_place_that_another_is_at_work_in_is_waited_for_and_others_go_first() {
    let world = world();
    let [stays, last] = ["stays", "last"].map(|name| world.barrier(name));
    let plan = [
        task("stays", "writes: [nine.txt]", &format!("sed -i s/^1/one/ nine.txt; {}", stays.script())),
        task("same", "writes: ['*.txt']", "sed -i s/^1/eins/ nine.txt"),
        task("apart", "writes: [docs/]", "mkdir docs; echo apart >docs/apart.md"),
        task("last", "", &last.script()),
    ];
    let run = world.start(&world.plan(&plan.concat()), &["--no-dashboard", "-j", "2"]);
    stays.arrived();
    last.arrived();
    world.wait_state("apart", "landed");
    assert_eq!(happened(&world, &["claimed"]), ["stays", "apart", "last"]);
    last.open();
    stays.open();
    run.wait().exited(0);
    assert_eq!(happened(&world, &["claimed"]), ["stays", "apart", "last", "same"]);
    // It started after the other had landed, so there was no conflict.
    assert_eq!(world.landed("nine.txt").unwrap(), NINE.replace("1\n2", "one\n2"));
}

#[test]
fn cars_that_conflict_stand_apart_in_the_train_and_land_in_the_order_that_is_shown() {
    let world = world();
    let file = world.outside("gate.sh");
    // No gate ends before the doors are open; the gates run side by side.
    let doors = world.outside("doors");
    script(&file, &format!("until [ -e '{}' ]; do sleep 0.02; done", doors.display()));
    world.config(&format!(
        "radar: {{ interval: 100ms }}\nland: {{ bounces: 1, test_command: \"'{}'\" }}\n",
        file.display()
    ));
    let ends: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, world.barrier(name))).into();
    // `b` cannot land behind `a` as it is; its agent then resolves the conflict.
    let scripts = [
        "sed -i s/^1/one/ nine.txt",
        "if [ -z \"$REGATTA_GUIDANCE\" ]; then sed -i s/^1/eins/ nine.txt; else printf '0\\none\\n2\\n' >nine.txt; exit; fi",
        "echo c >c.txt",
        "echo d >d.txt",
    ];
    let plan: String = ends
        .iter()
        .zip(scripts)
        .map(|((id, end), script)| task(id, "", &format!("{script}\n{}", end.script())))
        .collect();
    let plan = task("front", "", "echo front >front.txt") + &plan;
    let run = world.start(&world.plan(&plan), &["--no-dashboard", "-j", "8"]);
    ends.iter().for_each(|(_, end)| end.arrived());
    // The first car is in the train, and the others come behind it, one after another.
    world.wait_state("front", "landing");
    for (id, end) in &ends {
        end.open();
        world.wait_state(id, "landing");
    }
    assert_eq!(happened(&world, &["approved"]), ["front", "a", "b", "c", "d"]);
    conflict_was_seen(&world, "a", "b");
    let order = ["front", "a", "c", "d", "b"].map(str::to_owned).to_vec();
    assert_eq!(train(&world), [order.clone(), order.clone()]);
    std::fs::write(&doors, "").expect("the doors can be opened");
    run.wait().exited(0);
    assert_eq!(landed(&world), order);
    assert_eq!(world.landed("nine.txt").as_deref(), Some("0\none\n2\n"));
    world.assert_tidy();
}

#[test]
fn a_car_stands_behind_what_it_depends_on_whatever_its_priority() {
    let world = world();
    let plan = [
        task("base", "priority: -1", "echo base >base.txt"),
        task("top", "deps: [base]\npriority: 9", "echo top >>base.txt"),
        task("mid", "", "echo mid >mid.txt"),
    ];
    world.run(&world.plan(&plan.concat()), &["--no-land"]).exited(0);
    world.regatta(["land", "--no-wait", "top", "mid", "base"]).exited(0);
    let order = ["mid", "base", "top"].map(str::to_owned).to_vec();
    assert_eq!(train(&world), [order.clone(), order.clone()]);
    world.regatta(["daemon", "start"]).exited(0);
    for id in ["base", "top", "mid"] {
        world.wait_state(id, "landed");
    }
    world.regatta(["daemon", "stop"]).exited(0);
    assert_eq!(landed(&world), order);
}
