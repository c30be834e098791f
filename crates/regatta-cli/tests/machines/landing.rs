//! A lander that is replaced while it stands still at one place of its landing: nothing lands twice, and it lands
//! nothing when it continues.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::world::{Running, task};

use crate::Story;
use crate::scene::{Fleet, GATED, stop};

pub(crate) const STORIES: &[Story] = &[
    ("a_lander_stopped_after_its_intent_is_replaced", || replaced_at(POSTGRES, "intended", STOPPED)),
    ("a_lander_stopped_after_a_test_is_replaced", || replaced_at(POSTGRES, "tested", STOPPED)),
    ("a_lander_stopped_before_its_push_is_replaced", || replaced_at(POSTGRES, "gated", STOPPED)),
    ("a_lander_stopped_after_its_push_is_replaced", || replaced_at(POSTGRES, "pushed", STOPPED)),
    ("a_lander_stopped_while_its_branch_follows_is_replaced", || replaced_at(POSTGRES, "ref-moved", STOPPED)),
    ("a_lander_stopped_after_its_landing_is_replaced", || replaced_at(POSTGRES, "landed", STOPPED)),
    ("a_lander_cut_off_before_its_push_is_replaced", || replaced_at(POSTGRES, "gated", CUT)),
    ("a_lander_cut_off_after_its_push_is_replaced", || replaced_at(POSTGRES, "pushed", CUT)),
    ("a_lander_on_zookeeper_stopped_before_its_push_is_replaced", || {
        replaced_at(ZOOKEEPER, "gated", STOPPED);
    }),
    ("a_lander_on_zookeeper_cut_off_after_its_push_is_replaced", || replaced_at(ZOOKEEPER, "pushed", CUT)),
];

/// A fleet of two.
type Make = fn() -> Fleet;

const POSTGRES: Make = || Fleet::new(2, 4000, GATED);
const ZOOKEEPER: Make = || Fleet::on_zookeeper(2, 8000, GATED);

/// How the lander goes away, and comes back.
#[derive(Clone, Copy)]
struct Absence {
    goes: fn(&Fleet, &Running),
    comes_back: fn(&Fleet, &Running),
}

const STOPPED: Absence =
    Absence { goes: |_, daemon| daemon.signal("STOP"), comes_back: |_, daemon| daemon.signal("CONT") };

const CUT: Absence = Absence {
    goes: |fleet, _| fleet.node(1).host().cut(),
    comes_back: |fleet, _| fleet.node(1).host().heal(),
};

fn replaced_at(make: Make, place: &str, absence: Absence) {
    let mut fleet = make();
    let barrier = fleet.node(1).world.barrier("place");
    let path = fleet.node(1).world.outside("place");
    fleet.nodes[0].world.env("REGATTA_PAUSEPOINT", format!("{place}:{}", path.display()));
    let one = fleet.node(1).daemon();
    let world = &fleet.node(2).world;
    let both = ["a", "b"].map(|id| task(id, "auto_land: true", &format!("echo {id} >{id}.txt")));
    world.enqueue(&world.plan(&both.concat()));
    barrier.arrived();
    (absence.goes)(&fleet, &one);
    // It may have been about to do the second task; the successor does what is left.
    let two = fleet.node(2).daemon();
    fleet.wait_states(["a landed", "b landed"]);
    let (target, fence) = (fleet.git(&["rev-parse", "main"]), fleet.git(&["rev-parse", crate::scene::FENCE]));
    (absence.comes_back)(&fleet, &one);
    barrier.open();
    for end in ["arrive", "leave"] {
        fs::remove_file(fleet.node(1).world.outside(&format!("place.{end}"))).unwrap();
    }
    // It has noticed when it works again, under a new session.
    stop(two);
    world.enqueue(&world.plan(&task("next", "auto_land: false", "echo next >next.txt")));
    until("the first node works again", || (fleet.node(1).state("next") == "done").then_some(()));
    assert_eq!(fleet.git(&["rev-parse", "main"]), target, "{}", fleet.log());
    assert_eq!(fleet.git(&["rev-parse", crate::scene::FENCE]), fence, "{}", fleet.log());
    stop(one);
    fleet.assert_sound();
}
