//! The hub goes away, or its answer does.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::wire::Way;
use regatta_testkit::world::{Barrier, Running, task, text};

use crate::Story;
use crate::scene::{FENCE, Fleet, GATED, HUB_PORT, stop};

pub(crate) const STORIES: &[Story] = &[
    ("a_push_cut_after_any_byte_lands_once", cut_answers),
    ("a_node_without_the_hub_works_on_and_lands_when_it_is_back", without_hub),
    ("a_lander_that_loses_only_the_hub_leaves_the_train_to_another", without_lander),
    ("a_hub_that_is_silent_in_the_middle_of_a_push_holds_nobody_up", silent_in_push),
];

/// Starts to land a task on the first node, until its candidate has passed the gate.
fn land_until_gated(fleet: &mut Fleet, id: &str) -> (Running, Barrier) {
    let world = &mut fleet.nodes[0].world;
    let barrier = world.barrier(id);
    let path = world.outside(id);
    world.env("REGATTA_PAUSEPOINT", format!("gated:{}", path.display()));
    let lander = world.begin(["land", id]);
    world.env("REGATTA_PAUSEPOINT", "");
    barrier.arrived();
    (lander, barrier)
}

/// It continues, and does not pause there again.
fn go_on(fleet: &Fleet, barrier: &Barrier, id: &str) {
    barrier.open();
    for end in ["arrive", "leave"] {
        fs::remove_file(fleet.node(1).world.outside(&format!("{id}.{end}"))).unwrap();
    }
}

/// Cuts the connection to the hub after some bytes of the landing's push, in either direction: before, in and after
/// the hub's own step.
fn cut_answers() {
    let places = [0, 2, 5, 7, 8, 9];
    let ids: Vec<String> = (0..=2 * places.len()).map(|n| format!("t{n:02}")).collect();
    let mut fleet = Fleet::new(1, 20_000, GATED);
    let tasks: String =
        ids.iter().map(|id| task(id, "auto_land: false", &format!("echo {id} >{id}.txt"))).collect();
    let world = &fleet.node(1).world;
    world.run(&world.plan(&tasks), &[]).exited(0);

    // How much a landing takes.
    let (lander, barrier) = land_until_gated(&mut fleet, &ids[0]);
    let before = [Way::Up, Way::Down].map(|way| fleet.hub.carried(way));
    go_on(&fleet, &barrier, &ids[0]);
    lander.wait().exited(0);
    let bytes = [Way::Up, Way::Down].map(|way| fleet.hub.carried(way) - before[way as usize]);

    let mut ids = ids.iter().skip(1);
    for way in [Way::Up, Way::Down] {
        for place in places {
            let id = ids.next().expect("one for each place");
            let (lander, barrier) = land_until_gated(&mut fleet, id);
            let cuts = fleet.hub.cuts();
            // The push is the first exchange; others follow it.
            fleet.hub.cut_after(way, bytes[way as usize] * place / 16);
            go_on(&fleet, &barrier, id);
            let ran = lander.wait();
            assert_eq!(fleet.hub.cuts(), cuts + 1, "{way:?} {place}: nothing was cut");
            fleet.hub.heal();
            if fleet.node(1).state(id) != "landed" {
                // It gave up with a reason, and a person tries again.
                assert_ne!(ran.code, 0, "{way:?} {place}: {}", ran.stdout);
                fleet.node(1).world.regatta(["land", id]).exited(0);
            }
            assert_eq!(fleet.node(1).state(id), "landed", "{way:?} {place}: {} {}", ran.stdout, ran.stderr);
        }
    }
    assert!(fleet.remembered().commits.iter().filter(|commit| commit.of.is_some()).count() == 13);
    fleet.assert_sound();
}

fn without_hub() {
    let fleet = Fleet::new(2, 20_000, GATED);
    let (one, two) = (fleet.node(1), fleet.node(2));
    let daemon = one.daemon();
    two.world.enqueue(&two.world.plan(&task("before", "auto_land: true", "echo a >before.txt")));
    fleet.wait_states(["before landed"]);
    one.host().refuse(fleet.net.hub(), HUB_PORT);
    two.world.enqueue(&two.world.plan(&task("during", "auto_land: true", "echo b >during.txt")));
    let waits = until("it waits for the hub", || {
        let status = one.status("during");
        let why = text(&status["reason"]).to_owned();
        why.contains(&fleet.net.hub().address.to_string()).then_some(why)
    });
    assert!(!waits.is_empty());
    one.host().heal();
    fleet.wait_states(["before landed", "during landed"]);
    two.world.enqueue(&two.world.plan(&task("later", "auto_land: true", "echo c >later.txt")));
    fleet.wait_states(["before landed", "during landed", "later landed"]);
    stop(daemon);
    fleet.assert_sound();
}

fn without_lander() {
    let mut fleet = Fleet::new(2, 3000, GATED);
    let barrier = fleet.node(1).world.barrier("gated");
    let path = fleet.node(1).world.outside("gated");
    fleet.nodes[0].world.env("REGATTA_PAUSEPOINT", format!("gated:{}", path.display()));
    let one = fleet.node(1).daemon();
    let world = &fleet.node(2).world;
    world.enqueue(&world.plan(&task("a", "auto_land: true", "echo a >a.txt")));
    barrier.arrived();
    let two = fleet.node(2).daemon();
    fleet.node(1).host().refuse(fleet.net.hub(), HUB_PORT);
    go_on(&fleet, &barrier, "gated");
    // Its session is open all the time: it has to give up the train by itself.
    fleet.wait_states(["a landed"]);
    let fences = fleet.remembered().fences;
    assert_eq!(fences.first().map(|fence| fence.term), Some(1));
    assert!(fences.last().is_some_and(|fence| fence.term > 1 && fence.candidate.is_some()), "{fences:#?}");
    fleet.node(1).host().heal();
    stop(two);
    world.enqueue(&world.plan(&task("b", "auto_land: true", "echo b >b.txt")));
    fleet.wait_states(["a landed", "b landed"]);
    stop(one);
    fleet.assert_sound();
}

/// The connection of the first lander's push stays open, and nothing passes any more. What it sent is accepted by the
/// hub's hook after its successor has landed.
fn silent_in_push() {
    let fleet = Fleet::new(2, 3000, GATED);
    let [armed, held, released] = ["armed", "held", "released"].map(|name| fleet.outside(name));
    let hook = fleet.hub_dir().join("hooks/pre-receive");
    // Holds the first push of the target, and no other.
    script(
        &hook,
        &format!(
            "grep -q refs/heads/main || exit 0\n\
             rm '{}' 2>/dev/null || exit 0\n\
             touch '{}'\n\
             while [ ! -e '{}' ]; do sleep 0.1; done",
            armed.display(),
            held.display(),
            released.display()
        ),
    );
    fs::write(&armed, "").unwrap();
    let one = fleet.node(1).daemon();
    let world = &fleet.node(2).world;
    world.enqueue(&world.plan(&task("a", "auto_land: true", "echo a >a.txt")));
    until("the push is held", || held.exists().then_some(()));
    fleet.node(1).host().cut_from(fleet.net.hub());
    let two = fleet.node(2).daemon();
    fleet.wait_states(["a landed"]);
    let (target, fence) = (fleet.git(&["rev-parse", "main"]), fleet.git(&["rev-parse", FENCE]));
    fs::write(&released, "").unwrap();
    fleet.node(1).host().heal();
    stop(two);
    // What was held is decided before anything else of the first node.
    world.enqueue(&world.plan(&task("b", "auto_land: false", "echo b >b.txt")));
    fleet.wait_states(["a landed", "b done"]);
    assert_eq!(fleet.git(&["rev-parse", "main"]), target, "{}", fleet.log());
    assert_eq!(fleet.git(&["rev-parse", FENCE]), fence, "{}", fleet.log());
    stop(one);
    fleet.assert_sound();
}
