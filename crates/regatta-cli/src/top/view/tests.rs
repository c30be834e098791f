//! Frames of a made-up project, at common sizes, with and without colours.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use regatta_core::attempt::Attempt;
use regatta_core::crew::{MemberName, Role, Wanted};
use regatta_core::event::{Event, EventBody};
use regatta_core::exit::Exit;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::report::describe;
use regatta_core::state::{BlockReason, ParkReason, StateName, TaskState};
use regatta_core::suspicion::Sign;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, CarStep, HeldBy, Intent, LandRequest, Strategy};
use regatta_engine::landing::picture::TestNow;
use regatta_ops::look::review::Board;
use regatta_store::{MessageKind, Spending, TaskBrief};

use super::draw;
use crate::render::shown::clean_line;
use crate::top::addressee::Addressee;
use crate::top::crew::{Letter, Seat};
use crate::top::keys::Action;
use crate::top::model::{Model, Spent, Waiting, Worker};
use crate::top::run::text_of;
use crate::top::screen::{Change, Mode, PageKind, Screen, View, Wish};
use crate::top::spending::Today;
use crate::ui::Style;

const SIZES: [(u16, u16); 6] = [(80, 24), (200, 60), (120, 40), (40, 8), (39, 7), (1, 1)];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
}

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn member(text: &str) -> MemberName {
    MemberName::parse(text).unwrap()
}

fn brief(name: &str, title: &str, state: TaskState, since: i64) -> TaskBrief {
    TaskBrief {
        id: id(name),
        title: title.to_owned(),
        agent: "claude".to_owned(),
        priority: 0,
        read_only: false,
        labels: Vec::new(),
        part: None,
        attempts: u32::from(!matches!(state, TaskState::Pending { .. } | TaskState::Skipped { .. })),
        state,
        waiting_on: Vec::new(),
        sandbox: None,
        updated_at: at(since),
    }
}

fn attempt(n: u32, agent: &str, usd: f64, over: bool) -> Attempt {
    Attempt {
        model: Some("sonnet".to_owned()),
        started_at: Some(at(10)),
        ended_at: over.then(|| at(60)),
        cost_usd: Some(usd),
        tokens_in: 120_000,
        tokens_out: 4_300,
        ..Attempt::new(n, agent)
    }
}

/// One task in every state, a train with a test, two processes.
fn model() -> Model {
    let commit = Oid::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
    let mut model = Model { name: "shop".to_owned(), target: "main".to_owned(), ..Model::default() };
    let running = |attempt| TaskState::Running { attempt, since: at(100) };
    let landing = |waiting: Option<&str>| TaskState::Landing {
        attempt: 1,
        head: commit.clone(),
        waiting: waiting.map(str::to_owned),
        held_by: HeldBy::Other,
    };
    let parked =
        |why, until, detail: &str| TaskState::Parked { until: at(until), why, detail: detail.to_owned() };
    let blocked = |reason, detail: &str| TaskState::Blocked { reason, detail: detail.to_owned() };
    let mut waits = brief("checkout-page", "A page for the check-out", TaskState::pending(), 5);
    waits.waiting_on = vec![id("add-oauth-flow"), id("fix-login")];
    let mut second = brief("fix-login", "Fix the login", running(2), 100);
    second.attempts = 2;
    let mut evil = brief("evil-title", "\x1b[2J\x1b]0;owned\x07 title\u{202e}", running(1), 230);
    evil.agent = "co\x1bdex".to_owned();
    let briefs = [
        second,
        brief("add-oauth-flow", "Den OAuth-Ablauf ergänzen, für 日本語 users", running(1), 187),
        evil,
        brief("new-lane", "In a lane that is being made", TaskState::Claimed { attempt: 1 }, 299),
        brief(
            "judge-me",
            "Is judged",
            TaskState::Judging { attempt: 1, exit: Exit::Exited { code: 0 } },
            290,
        ),
        brief("car-one", "First in the train", landing(None), 250),
        brief(
            "car-two",
            "Second in the train",
            landing(Some("src/cart.rs is changed in your checkout")),
            240,
        ),
        brief(
            "oven",
            "Heat the oven",
            blocked(BlockReason::Verdict, "The oven is cold\nand nobody has the key"),
            90,
        ),
        brief(
            "merge-me",
            "Will not merge",
            blocked(BlockReason::Conflict, "src/cart.rs, with what landed since"),
            95,
        ),
        brief(
            "broken",
            "Cannot be done",
            TaskState::Failed { why: "3 attempts used up; the last: exit 1".into() },
            80,
        ),
        brief("limited", "Ran into a limit", parked(ParkReason::RateLimited, 4000, "five_hour limit"), 70),
        brief("held", "Held back", parked(ParkReason::Operator, 251_570_764_800, "parked by ada"), 60),
        waits,
        brief("again", "To be tried again", TaskState::Pending { not_before: Some(at(330)) }, 50),
        brief("waits", "Waits for its turn", TaskState::pending(), 4),
        brief("by-hand", "Done by hand", TaskState::Claimed { attempt: 1 }, 280),
        brief("for-linus", "Only for one", TaskState::pending(), 4),
        brief("for-all", "For anybody", TaskState::pending(), 4),
        brief(
            "landed-1",
            "Landed some time ago",
            TaskState::Landed { attempt: 1, commit: commit.clone(), target: Some("main".to_owned()) },
            30,
        ),
        brief("done-1", "Only read", TaskState::Done { attempt: 1, head: None }, 20),
        brief("called-off", "Called off", TaskState::Cancelled { by: "ada".into() }, 15),
        brief(
            "left-out",
            "Left out",
            TaskState::Skipped { dependency: id("broken"), was: Some(StateName::Failed) },
            80,
        ),
    ];
    for brief in briefs {
        *model.counts.entry(brief.state.kind()).or_default() += 1;
        model.put(brief, clean_line);
    }
    model.put_attempts(
        &id("fix-login"),
        &[
            attempt(1, "claude", 0.31, true),
            Attempt { started_at: Some(at(100)), ..Attempt::new(2, "claude") },
        ],
    );
    model.put_attempts(&id("landed-1"), &[attempt(1, "codex", 1.25, true)]);
    model.rows.get_mut(&id("fix-login")).unwrap().doing = "Bash cargo test -p auth --quiet".to_owned();
    let request = LandRequest {
        target: "main".to_owned(),
        strategy: Strategy::Rebase,
        via: Default::default(),
        proposal: Default::default(),
        base: commit.clone(),
        head: commit.clone(),
        message: String::new(),
        verdict: None,
        checked: false,
        accepted_by: None,
        siblings: Default::default(),
        rest: Default::default(),
    };
    for (n, name) in ["car-one", "car-two"].into_iter().enumerate() {
        let intent = Intent { onto: Some(commit.clone()), at: at(0) };
        model.cars.push(Car {
            task: id(name),
            attempt: 1,
            priority: 0,
            seq: n as u64,
            request: request.clone(),
            step: CarStep::Intended { intent },
        });
    }
    model.tests.push(TestNow {
        candidate: Oid::parse("fedcba9876543210fedcba9876543210fedcba98").unwrap(),
        onto: commit,
        cars: vec![id("car-one")],
        since: at(260),
    });
    let worker =
        |what: &str, pid, dead| Worker { what: what.to_owned(), node: "harbour".to_owned(), pid, dead };
    model.workers = vec![worker("daemon", 4711, false), worker("run plans/spring.md", 4800, true)];
    let seat = |name: &str, is_there, tasks: &[&str]| Seat {
        name: member(name),
        role: "reviewer".into(),
        is_there,
        tasks: tasks.iter().map(|task| id(task)).collect(),
    };
    model.crew.members = vec![seat("grace", true, &["by-hand"]), seat("linus", false, &[])];
    let wanted = |member, role| Wanted { member, role };
    model.crew.posted = [
        (id("by-hand"), wanted(None, Some(Role::parse("reviewer").unwrap()))),
        (id("for-linus"), wanted(Some(member("linus")), None)),
        (id("for-all"), wanted(None, None)),
    ]
    .into();
    let letter = |id, from: &str, to: &[(&str, bool)], kind, text: &str| Letter {
        id,
        clock: format!("08:1{id}:00"),
        from: from.to_owned(),
        to: to.iter().map(|(name, is_read)| ((*name).to_owned(), *is_read)).collect(),
        kind,
        reply_to: (id == 2).then_some(1),
        lines: text.lines().map(str::to_owned).collect(),
    };
    model.crew.letters = vec![
        letter(1, "ada", &[("grace", true)], MessageKind::Direct, "Which key does the oven have?"),
        letter(2, "grace", &[("ada", false)], MessageKind::Direct, "The red one.\nIt hangs beside it."),
        letter(3, "ada", &[("fix-login", false), ("grace", true)], MessageKind::Broadcast, "Lunch"),
    ];
    model.held.insert(id("waits"), "no room: 4 of 4 lanes are taken".to_owned());
    let spending = |key: &str, attempts, usd| Spending {
        key: key.to_owned(),
        attempts,
        usd,
        tokens_in: 120_000 * attempts,
        tokens_out: 4_300 * attempts,
        ..Spending::default()
    };
    model.today = Today {
        begins: Some(at(0)),
        all: Spending { unpriced: 1, ..spending("", 3, 1.56) },
        by_agent: vec![spending("claude", 2, 0.31), Spending { unpriced: 1, ..spending("codex", 1, 1.25) }],
        by_model: vec![spending("gpt-6", 1, 1.25), spending("sonnet", 1, 0.31)],
        by_task: vec![spending("fix-login", 2, 0.31), spending("landed-1", 1, 1.25)],
    };
    let heard = Spent { n: 2, at: Some(at(100)), usd: 0.42, tokens_in: 120_000, tokens_out: 4_300 };
    model.rows.get_mut(&id("fix-login")).unwrap().heard = Some(heard);
    model.day_usd = Some(50.0);
    model.cooling = vec![Waiting {
        who: "max-1 (claude)".into(),
        why: "five_hour: resets soon".into(),
        until: Some(at(7500)),
    }];
    model.rows.get_mut(&id("add-oauth-flow")).unwrap().suspected =
        vec!["silence: it has said nothing for 5m".to_owned()];
    let told = [
        (
            "add-oauth-flow",
            Some(1),
            EventBody::Suspected { sign: Sign::Silence, why: "it has said nothing for 5m".into() },
        ),
        ("fix-login", Some(2), EventBody::Started { pid: 99 }),
        (
            "oven",
            Some(1),
            EventBody::Blocked { reason: BlockReason::Verdict, detail: "The oven is cold".into() },
        ),
        ("landed-1", Some(1), EventBody::Done { head: None }),
        ("broken", Some(3), EventBody::Failed { why: "exit 1".into() }),
    ];
    for (n, (task, attempt, body)) in told.into_iter().enumerate() {
        let event = Event { seq: n as u64 + 1, at: at(n as i64 * 60), task: Some(id(task)), attempt, body };
        let text = clean_line(&describe(&event.body));
        model.tell(&event, text, format!("08:0{n}:00"));
    }
    model
}

fn screen(model: &Model) -> Screen {
    let mut screen = Screen::new(false);
    screen.settle(model);
    screen.reel.begin(Some((id("fix-login"), 2)));
    let said = "I read the login in two places, and one of them does not check what it is given; \
                beide werden 日本語日本語日本語日本語日本語 changed.";
    screen.reel.push([
        (Style::Dim, "▸ started, sonnet, session 4f1c".to_owned()),
        (Style::Plain, said.to_owned()),
        (Style::Busy, "● Bash cargo test -p auth --quiet".to_owned()),
        (Style::Bad, "✕ Bash failed".to_owned()),
    ]);
    screen
}

fn paint(model: &Model, screen: &mut Screen, (width, height): (u16, u16), color: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, screen, color, at(300))).unwrap();
    terminal.backend().buffer().clone()
}

fn picture(model: &Model, screen: &mut Screen, size: (u16, u16)) -> String {
    text_of(&paint(model, screen, size, false))
}

#[test]
fn every_view_at_80_by_24() {
    let model = model();
    for view in View::ALL {
        let mut screen = screen(&model);
        screen.view = view;
        insta::assert_snapshot!(format!("{}_80x24", view.name()), picture(&model, &mut screen, (80, 24)));
    }
}

#[test]
fn every_view_at_200_by_60() {
    let model = model();
    for view in View::ALL {
        let mut screen = screen(&model);
        screen.view = view;
        insta::assert_snapshot!(format!("{}_200x60", view.name()), picture(&model, &mut screen, (200, 60)));
    }
}

#[test]
fn the_board_by_review_says_who_acts_next() {
    let mut model = model();
    let proposed = |name: &str, held_by: HeldBy, why: &str| {
        let head = Oid::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
        let waiting = Some(why.to_owned());
        brief(name, "A pull request", TaskState::Landing { attempt: 1, head, waiting, held_by }, 200)
    };
    model.put(proposed("in-checks", HeldBy::Forge, "#11 checks 1/3"), clean_line);
    model.put(proposed("in-review", HeldBy::Review, "#12 review wanted: ann"), clean_line);
    model.put(proposed("is-ready", HeldBy::Ready, "#13 ready to merge"), clean_line);
    let mut cars = model.cars.clone();
    for name in ["in-checks", "in-review", "is-ready"] {
        let head = cars[0].request.head.clone();
        cars.push(Car { task: id(name), step: CarStep::Proposed { head }, ..cars[0].clone() });
    }
    model.board = Board::of(cars, []);
    let mut screen = screen(&model);
    screen.act(Action::ByReview, &model);
    insta::assert_snapshot!("by_review_80x24", picture(&model, &mut screen, (80, 24)));
    // Its columns are gone through like those of the other board.
    screen.act(Action::Pane(-1), &model);
    assert_eq!(screen.selected, Some(id("is-ready")));
    screen.act(Action::Pane(1), &model);
    screen.act(Action::Pane(-1), &model);
    screen.act(Action::Pane(-1), &model);
    assert_eq!(screen.selected, Some(id("in-checks")));
    screen.act(Action::Move(1), &model);
    assert_eq!(screen.selected, Some(id("in-review")));
    screen.act(Action::ByReview, &model);
    assert!(!screen.by_review && screen.view == View::Board);
    // What is over is on this board only.
    screen.selected = Some(id("landed-1"));
    screen.act(Action::ByReview, &model);
    assert_eq!(screen.selected, Some(id("fix-login")));
}

#[test]
fn what_stands_over_a_view() {
    let model = model();
    let size = (80, 24);
    let mut screen = screen(&model);
    assert_eq!(screen.act(Action::Help, &model), None);
    insta::assert_snapshot!("help_80x24", picture(&model, &mut screen, size));
    screen.act(Action::Back, &model);
    screen.act(Action::Change(Change::Cancel), &model);
    insta::assert_snapshot!("confirm_80x24", picture(&model, &mut screen, size));
    screen.act(Action::No, &model);
    screen.act(Action::Filter, &model);
    for c in "land".chars() {
        screen.act(Action::Type(c), &model);
    }
    insta::assert_snapshot!("filter_80x24", picture(&model, &mut screen, size));
    screen.act(Action::Accept, &model);
    let wish = screen.act(Action::Diff, &model);
    assert_eq!(wish, Some(Wish::Read(PageKind::Diff, id("car-one"))));
    let patch = (0..40).map(|n| (Style::Good, format!("+line {n}"))).collect();
    screen.fill(PageKind::Diff, &id("car-one"), patch);
    insta::assert_snapshot!("diff_80x24", picture(&model, &mut screen, size));
}

#[test]
fn where_nothing_may_be_changed_nothing_is_offered() {
    let model = model();
    let mut screen = Screen { read_only: true, ..screen(&model) };
    let text = picture(&model, &mut screen, (200, 60));
    assert!(text.contains("read-only") && !text.contains("C cancel"), "{text}");
    screen.act(Action::Help, &model);
    let help = picture(&model, &mut screen, (200, 60));
    for word in ["cancel:", "requeue:", "retire", "land:", "park:", "send:", "message:"] {
        assert!(!help.contains(word), "{word} in\n{help}");
    }
}

#[test]
fn nothing_is_told_by_colour_alone() {
    let model = model();
    for size in SIZES {
        for view in View::ALL {
            let mut screen = screen(&model);
            screen.view = view;
            let plain = paint(&model, &mut screen, size, false);
            let colored = paint(&model, &mut screen, size, true);
            assert_eq!(text_of(&plain), text_of(&colored), "{view:?}");
            let has_color = |buffer: &Buffer| {
                buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            };
            assert!(!has_color(&plain), "{view:?} at {size:?}");
            // A terminal that is too small gets one sentence without colours.
            assert_eq!(has_color(&colored), size.0 >= 40 && size.1 >= 8, "{view:?} at {size:?}");
        }
    }
}

#[test]
fn no_size_breaks_it_and_nothing_a_terminal_obeys_is_drawn() {
    let model = model();
    for size in SIZES {
        for view in View::ALL {
            for action in [
                Action::Move(1),
                Action::Last,
                Action::First,
                Action::Page(1),
                Action::Pane(1),
                Action::Pane(-1),
            ] {
                let mut screen = screen(&model);
                screen.view = view;
                picture(&model, &mut screen, size);
                screen.act(action, &model);
                let text = picture(&model, &mut screen, size);
                let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                assert!(!text.contains(obeyed), "{text:?}");
                assert_eq!(text.lines().count(), usize::from(size.1));
                for line in text.lines() {
                    let wide = unicode_width::UnicodeWidthStr::width(line);
                    assert!(wide <= usize::from(size.0), "{wide}: {line:?}");
                }
            }
        }
    }
    let empty = Model::default();
    for size in SIZES {
        for view in View::ALL {
            let mut screen = Screen::new(false);
            screen.view = view;
            screen.settle(&empty);
            picture(&empty, &mut screen, size);
            assert_eq!(screen.act(Action::Detail, &empty), None);
            picture(&empty, &mut screen, size);
        }
    }
}

#[test]
fn a_yes_is_for_the_task_that_was_asked_about() {
    let mut model = model();
    let mut screen = screen(&model);
    assert_eq!(screen.selected, Some(id("fix-login")));
    screen.act(Action::Change(Change::Cancel), &model);
    // The task ends while the question is open, and another is on the first line.
    model.put(
        brief("fix-login", "Fix the login", TaskState::Done { attempt: 2, head: None }, 300),
        clean_line,
    );
    screen.settle(&model);
    assert_eq!(screen.act(Action::Yes, &model), Some(Wish::Change(Change::Cancel, id("fix-login"))));
}

#[test]
fn what_the_state_does_not_allow_is_not_asked() {
    let model = model();
    let mut screen = screen(&model);
    screen.act(Action::Last, &model);
    assert_eq!(screen.act(Action::Change(Change::Cancel), &model), None);
    let said = screen.said.as_ref().unwrap();
    assert_eq!(said.text, "called-off is cancelled, so it cannot be cancelled");
}

#[test]
fn the_first_line_is_selected_until_somebody_chooses() {
    let mut model = model();
    let mut screen = screen(&model);
    let over = |task: &str| brief(task, "", TaskState::Done { attempt: 1, head: None }, 300);
    model.put(over("fix-login"), clean_line);
    screen.settle(&model);
    assert_eq!(screen.selected, Some(id("add-oauth-flow")));
    screen.act(Action::Move(1), &model);
    assert_eq!(screen.selected, Some(id("evil-title")));
    model.put(over("evil-title"), clean_line);
    screen.settle(&model);
    assert_eq!(screen.selected, Some(id("evil-title")), "chosen, so it is kept");
    screen.act(Action::Back, &model);
    assert_eq!(screen.selected, Some(id("add-oauth-flow")));
    screen.act(Action::NextNeeded, &model);
    assert_eq!(screen.selected, Some(id("merge-me")));
}

#[test]
fn a_reader_keeps_their_place_while_more_is_said() {
    let model = model();
    let mut screen = screen(&model);
    screen.act(Action::Pane(1), &model);
    screen.reel.push((0..50).map(|n| (Style::Plain, format!("line {n}"))));
    picture(&model, &mut screen, (80, 24));
    screen.act(Action::Move(-5), &model);
    let before = picture(&model, &mut screen, (80, 24));
    screen.reel.push((50..60).map(|n| (Style::Plain, format!("line {n}"))));
    let after = picture(&model, &mut screen, (80, 24));
    let lines = |text: &str| {
        text.lines().filter(|line| line.starts_with("line ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&before), lines(&after));
    screen.act(Action::Last, &model);
    assert!(picture(&model, &mut screen, (80, 24)).contains("line 59"));
}

#[test]
fn a_message_goes_to_whoever_reads_it() {
    let model = model();
    let mut screen = screen(&model);
    let mut press = |view: View, task: &str| {
        (screen.view, screen.mode, screen.said) = (view, Mode::Browse, None);
        (screen.selected, screen.chosen) = (Some(id(task)), true);
        assert_eq!(screen.act(Action::Message, &model), None);
        match (&screen.mode, &screen.said) {
            (Mode::Prompt(Addressee::Inbox(name)), None) => Ok(name.to_string()),
            (Mode::Browse, Some(said)) => Err(said.text.clone()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(press(View::Lanes, "fix-login").as_deref(), Ok("fix-login"));
    assert_eq!(press(View::Board, "oven").as_deref(), Ok("oven"), "it may be tried again");
    assert_eq!(press(View::Board, "by-hand").as_deref(), Ok("grace"), "who holds it");
    assert_eq!(press(View::Crew, "fix-login").as_deref(), Ok("grace"), "the marked member");
    let refused = |said: Result<String, String>, why: &str| {
        assert!(said.as_ref().is_err_and(|text| text.contains(why)), "{said:?}");
    };
    refused(press(View::Board, "for-all"), "no member holds it");
    refused(press(View::Lanes, "landed-1"), "is landed");
    refused(press(View::Lanes, "called-off"), "is cancelled");
    refused(press(View::Cost, "fix-login"), "no task is selected");
}

#[test]
fn members_are_chosen_and_messages_leafed_through() {
    let model = model();
    let mut screen = Screen { view: View::Crew, ..screen(&model) };
    let marked = |screen: &Screen| screen.member(&model).map(|seat| seat.name.to_string());
    assert_eq!(marked(&screen).as_deref(), Some("grace"));
    screen.act(Action::Move(1), &model);
    screen.act(Action::Move(1), &model);
    assert_eq!(marked(&screen).as_deref(), Some("linus"));
    screen.act(Action::Message, &model);
    "hi".chars().for_each(|c| drop(screen.act(Action::Type(c), &model)));
    let asked = picture(&model, &mut screen, (80, 24));
    assert!(asked.contains("a message to linus, who has left"), "{asked}");
    assert_eq!(screen.act(Action::Accept, &model), Some(Wish::Message(member("linus"), "hi".to_owned())));
    screen.act(Action::Pane(1), &model);
    let small = (80, 12);
    assert!(!picture(&model, &mut screen, small).contains("Which key"));
    screen.act(Action::First, &model);
    let first = picture(&model, &mut screen, small);
    assert!(first.contains("Which key") && first.contains("lines below"), "{first}");
    screen.act(Action::Back, &model);
    assert!(picture(&model, &mut screen, small).contains("Lunch"));
}

#[test]
fn what_an_agent_at_work_says_is_added_to_what_the_store_knows() {
    let mut model = model();
    let cents = |model: &Model| (model.spent_today().usd * 100.0).round();
    assert_eq!(cents(&model), 198.0);
    // The store has a part of it, from one of today's attempts.
    let recorded = |at| Attempt { started_at: Some(at), cost_usd: Some(0.4), ..Attempt::new(2, "claude") };
    model.put_attempts(&id("fix-login"), &[recorded(at(100))]);
    assert_eq!(cents(&model), 158.0);
    model.put_attempts(&id("fix-login"), &[recorded(at(-100))]);
    assert_eq!(cents(&model), 198.0, "one that began yesterday is not in the sum yet");
    // The attempt ends, and the store has everything.
    let done = TaskState::Done { attempt: 2, head: None };
    model.put(TaskBrief { attempts: 2, ..brief("fix-login", "Fix the login", done, 300) }, clean_line);
    assert_eq!(cents(&model), 156.0);
}
