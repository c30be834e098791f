//! `regatta top` and the crew: messages that are written there, and tasks that members hold by hand.

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;
use crate::top::Pane;

fn said(world: &World, name: &str) -> Vec<String> {
    let listed = world.regatta(["msg", "inbox", "--as", name, "--peek", "--json"]).exited(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |message: &Value| format!("{}: {}", text(&message["from"]), text(&message["text"]));
    listed.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_message_is_written_to_an_agent_and_to_a_member() {
    let world = World::new(REGATTA);
    let _stands = [world.join("Jerry", "developer"), world.join("Tom", "architect")];
    let fifo = world.fifo("go");
    let path = world.waiting_plan(&fifo);
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (100, 16), "", "");
    pane.shows(&["▸● waiter", "m msg"]);
    pane.keys(&["m", "use the red key"]);
    insta::assert_snapshot!(pane.shows(&["> use the red key", "running  TIME  hello", "\nhello"]), @"
    repo → main  ● 1 running
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸● waiter sh        running  TIME  hello


    ── waiter: Wait for a word · attempt 1 by sh ───────────────────────────────────────────────────────
    hello







    a message to the agent of waiter; Enter sends, Esc does not
    > use the red key
    ");
    pane.keys(&["Enter"]);
    pane.shows(&["message 1 is in the inbox of waiter"]);
    assert_eq!(said(&world, "waiter"), ["ada: use the red key"]);
    // The crew view: the second member, after leaving the first try.
    pane.keys(&["4", "j", "m"]);
    insta::assert_snapshot!(pane.shows(&["▸● Tom", "a message to Tom (architect)", "ada → waiter"]), @"
    repo → main  ● 1 running
     1 lanes  2 board  3 train [4 crew] 5 events  6 cost
       WHAT                                     PROCESS   NODE
     ● run DIR/plan.md  PID  HOST

       MEMBER                   ROLE            HOLDS
     ● Jerry                    developer
    ▸● Tom                      architect
    ── messages ────────────────────────────────────────────────────────────────────────────────────────
    1 CLOCK ada → waiter · not read yet
      use the red key



    a message to Tom (architect); Enter sends, Esc does not
    >
    ");
    pane.keys(&["Escape"]);
    pane.shows(&["nothing was sent"]);
    pane.keys(&["m", "-"]);
    pane.keys(&["Enter"]);
    pane.shows(&["message 2 is in the inbox of Tom"]);
    assert_eq!(said(&world, "Tom"), ["ada: -"], "a dash is a dash here");
    insta::assert_snapshot!(pane.shows(&["ada → Tom"]), @"
    repo → main  ● 1 running
     1 lanes  2 board  3 train [4 crew] 5 events  6 cost
       WHAT                                     PROCESS   NODE
     ● run DIR/plan.md  PID  HOST

       MEMBER                   ROLE            HOLDS
     ● Jerry                    developer
    ▸● Tom                      architect
    ── messages ────────────────────────────────────────────────────────────────────────────────────────
    1 CLOCK ada → waiter · not read yet
      use the red key
    2 CLOCK ada → Tom · not read yet
      -


    message 2 is in the inbox of Tom
    ");
    // New messages appear without a key, and so does that they were read.
    world.regatta(["msg", "send", "Jerry", "\u{1b}[2Jhello\nthere", "--as", "Tom"]).exited(0);
    insta::assert_snapshot!(pane.shows(&["Tom → Jerry · not read yet"]), @"
    repo → main  ● 1 running
     1 lanes  2 board  3 train [4 crew] 5 events  6 cost
       WHAT                                     PROCESS   NODE
     ● run DIR/plan.md  PID  HOST

       MEMBER                   ROLE            HOLDS
     ● Jerry                    developer
    ▸● Tom                      architect
    ── messages ────────────────────────────────────────────────────────────────────────────────────────
      use the red key
    2 CLOCK ada → Tom · not read yet
      -
    3 CLOCK Tom → Jerry · not read yet
      �[2Jhello
      there
    message 2 is in the inbox of Tom
    ");
    world.regatta(["msg", "inbox", "--as", "Jerry"]).exited(0);
    pane.shows(&["Tom → Jerry\n"]);
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn what_members_hold_by_hand_is_told_as_such() {
    let world = World::after_plan(REGATTA);
    let _stands = [world.join("Jerry", "developer"), world.join("Tom", "architect")];
    world.regatta(["task", "push", "Implement login", "--role", "developer"]).exited(0);
    world.regatta(["task", "push", "Draw it", "--assign", "Tom"]).exited(0);
    let pane = Pane::start(&world, (200, 20), "", "");
    insta::assert_snapshot!(pane.shows(&["for any developer: Implement login", "for Tom: Draw it", "$0.25  Do", "│✓ finished"]), @"
    repo → main  ✕ 1 failed  ○ 2 pending  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken   sim       failed                       the agent reported block: The oven is …│── broken: Cannot succeed · attempt 1 by sim ────────────────────────────────────────────────────────────────
     ○ TASK-001 crew      pending                      for any developer: Implement login     │▸ started, sim
     ○ TASK-002 crew      pending                      for Tom: Draw it                       │
     ✓ script   sh        landed                       Run a script                           │the oven is cold
     ✓ good     sim       landed                $0.25  Do something good                      │
     – after    sim       skipped                      its dependency broken failed           │● Bash regatta done --verdict block
                                                                                              │
                                                                                              │broken attempt 1: verdict block recorded
                                                                                              │
                                                                                              │the oven is cold
                                                                                              │
                                                                                              │✓ finished · 2 turns · $0.0000
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
    Enter detail  l logs  d diff  / filter  s send  m msg  t retry  R requeue  ? help  q quit
    ");
    pane.keys(&["2"]);
    insta::assert_snapshot!(pane.shows(&["○ TASK-001 →developer", "○ TASK-002 →Tom"]), @"
    repo → main  ✕ 1 failed  ○ 2 pending  ✓ 2 done  $0.25 today
     1 lanes [2 board] 3 train  4 crew  5 events  6 cost
     waiting 2                               at work 0                               landing 0                               needs you 1                             over 3
     ○ TASK-001 →developer                                                                                                  ▸✕ broken                                ✓ script
     ○ TASK-002 →Tom                                                                                                                                                 ✓ good
                                                                                                                                                                     – after












    ── broken: Cannot succeed · the agent reported block: The oven is cold ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    Enter detail  l logs  d diff  / filter  s send  m msg  t retry  R requeue  ? help  q quit
    ");
    world.regatta(["task", "claim", "--as", "Jerry"]).exited(0);
    pane.shows(&["● TASK-001 @Jerry"]);
    // A task that is added while we look.
    world.regatta(["task", "push", "Anything"]).exited(0);
    insta::assert_snapshot!(pane.shows(&["○ TASK-003 →anybody"]), @"
    repo → main  ● 1 running  ✕ 1 failed  ○ 2 pending  ✓ 2 done  $0.25 today
     1 lanes [2 board] 3 train  4 crew  5 events  6 cost
     waiting 2                               at work 1                               landing 0                               needs you 1                             over 3
     ○ TASK-002 →Tom                        ▸● TASK-001 @Jerry  TIME  ✕ broken                                ✓ script
     ○ TASK-003 →anybody                                                                                                                                             ✓ good
                                                                                                                                                                     – after












    ── TASK-001: Implement login · held by Jerry ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    Enter detail  l logs  d diff  / filter  s send  m msg  C cancel  ? help  q quit
    ");
    let find = |id: &str| {
        pane.keys(&["Escape", "1", "/"]);
        pane.keys(&[id, "Enter"]);
        pane.until(|text| text.lines().nth(2).is_some_and(|line| line.contains(id) && line.contains('▸')));
    };
    find("TASK-001");
    insta::assert_snapshot!(pane.shows(&["there is no transcript"]), @"
    repo → main  ● 1 running  ✕ 1 failed  ○ 2 pending  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost                                                                                                                                           /TASK-001
    ▸● TASK-001 crew      claimed  TIME  held by Jerry: Implement login         │── TASK-001: Implement login ──
                                                                                              │Jerry is working on it by hand; there is no transcript
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
                                                                                              │
    Enter detail  l logs  d diff  / filter  s send  m msg  C cancel  ? help  q quit
    ");
    pane.keys(&["C"]);
    pane.shows(&["cancel TASK-001? Jerry holds it and gets a message"]);
    pane.keys(&["n", "m", "how far?", "Enter"]);
    pane.shows(&["message 1 is in the inbox of Jerry"]);
    assert_eq!(said(&world, "Jerry"), ["ada: how far?"]);
    find("TASK-003");
    pane.keys(&["m"]);
    pane.shows(&["TASK-003 is on the board and no member holds it"]);
    find("good");
    pane.keys(&["m"]);
    pane.shows(&["good is landed: it has no agent that would read a message"]);
    pane.keys(&["q"]);
    pane.ended(0);
    let document = world.regatta(["top", "--once", "--json"]).exited(0).json();
    let tasks = document["tasks"].as_array().unwrap();
    let task = |id: &str| tasks.iter().find(|task| task["id"] == id).unwrap();
    assert_eq!(
        (&task("TASK-001")["holder"], &task("TASK-001")["role"]),
        (&"Jerry".into(), &"developer".into())
    );
    assert_eq!((&task("TASK-002")["holder"], &task("TASK-002")["assignee"]), (&Value::Null, &"Tom".into()));
    assert_eq!((&task("good")["on_board"], &task("TASK-003")["on_board"]), (&false.into(), &true.into()));
    assert_eq!(document["messages"][0]["text"], "how far?");
}
