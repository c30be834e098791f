//! `regatta top`, on a terminal played by tmux, and as one picture.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use regatta_testkit::daemon::{DEADLINE, is_alive, signal, until, within};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, let_go};

use crate::REGATTA;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A terminal with `regatta top` in it. Its server ends when dropped.
pub(crate) struct Pane<'a> {
    world: &'a World,
    dir: PathBuf,
}

impl<'a> Pane<'a> {
    /// Starts it with these flags; `TERM` and more can be set in `variables`, as words before the command.
    pub(crate) fn start(world: &'a World, size: (u16, u16), variables: &str, flags: &str) -> Self {
        Self::of(world, size, variables, &format!("top {flags}"))
    }

    /// The same for any command.
    pub(crate) fn of(world: &'a World, size: (u16, u16), variables: &str, command: &str) -> Self {
        // Each has its own directory, because the server of the previous one may still be running.
        let dir = world.outside(&format!("top-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&dir).unwrap();
        let pane = Self { world, dir };
        // The terminal's state before, our process id, and its state afterwards.
        let (pid, before, after) = (pane.file("pid"), pane.file("before"), pane.file("after"));
        let script = format!(
            "stty -g > '{before}'\nsh -c 'echo $$ > \"{pid}.new\"; mv \"{pid}.new\" \"{pid}\"; exec env {variables} \"{}\" {command}'\n\
             echo \"ended $?\"\nstty -g > '{after}'\nexec cat\n",
            env!("CARGO_BIN_EXE_regatta")
        );
        let path = pane.dir.join("session.sh");
        std::fs::write(&path, script).unwrap();
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let shell = format!("sh '{}'", path.display());
        pane.tmux(["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &shell]);
        pane
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    pub(crate) fn tmux<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(self.dir.join("tmux")).args(args).stdin(Stdio::null());
        command.current_dir(self.world.root()).env_clear().envs(self.world.variables());
        command.env("TERM", "screen");
        let output = command.output().expect("tmux can be started: scripts/test installs it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn text(&self) -> String {
        self.tmux(["capture-pane", "-p"])
    }

    /// Waits for a matching screen.
    #[track_caller]
    pub(crate) fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = within(DEADLINE, || {
            last = self.text();
            wanted(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("it never came to that:\n{last}"))
    }

    /// Waits for a screen with all these parts. Returns it whole, for a snapshot.
    #[track_caller]
    pub(crate) fn shows(&self, parts: &[&str]) -> String {
        let screen = |screen: &str| shown(screen.trim_end());
        screen(&self.until(|text| parts.iter().all(|part| screen(text).contains(part))))
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(["send-keys"].iter().chain(keys));
    }

    fn pid(&self) -> u32 {
        let read = || std::fs::read_to_string(self.file("pid")).ok()?.trim().parse().ok();
        until("it has started", read)
    }

    /// It has ended with this code, and the terminal is as before.
    #[track_caller]
    pub(crate) fn ended(&self, code: i32) {
        let text = self.until(|text| text.contains("ended "));
        assert!(text.contains(&format!("ended {code}\n")), "{text}");
        let after = until("the terminal was looked at", || {
            std::fs::read_to_string(self.file("after")).ok().filter(|text| text.ends_with('\n'))
        });
        assert_eq!(std::fs::read_to_string(self.file("before")).unwrap(), after);
        assert_eq!(self.tmux(["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
    }
}

impl Drop for Pane<'_> {
    fn drop(&mut self) {
        self.tmux(["kill-server"]);
    }
}

/// A plan with one agent that waits for the pipe, and some that do not succeed.
fn plan(world: &World, fifo: &std::path::Path) -> PathBuf {
    let script = format!("echo hello from the lane; read go < {}; echo bye", fifo.display());
    world.plan_file(&format!(
        "---\nregatta: 1\ndefaults: {{ agent: sh, max_attempts: 1 }}\ntasks:\n  - id: waiter\n    prompt: |\n      # Waits for a word\n      \
         {script}\n  - id: other\n    deps: [waiter]\n    prompt: echo other\n---\n"
    ))
}

#[test]
fn a_running_agent_is_seen_found_asked_about_and_cancelled() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let path = plan(&world, &fifo);
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (80, 10), "", "");
    insta::assert_snapshot!(pane.shows(&["running  TIME  hello from the lane", "\nhello from the lane"]), @"
    repo → main  ● 1 running  ○ 1 pending
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸● waiter running  TIME  hello from the lane
     ○ other  pending                      waits for waiter

    ── waiter: Waits for a word · attempt 1 by sh ──────────────────────────────────
    hello from the lane


    Enter detail  l logs  d diff  / filter  s send  m msg  C cancel  ? help  q quit
    ");
    // The filter, while it is typed.
    pane.keys(&["/", "oth"]);
    pane.until(|text| text.contains("○ other") && !text.contains("● waiter"));
    pane.keys(&["er"]);
    insta::assert_snapshot!(pane.shows(&["/other", "not started yet"]), @"
    repo → main  ● 1 running  ○ 1 pending
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸○ other pending                      waits for waiter


    ── other: echo other ───────────────────────────────────────────────────────────
    not started yet: waits for waiter


    /other
    ");
    pane.keys(&["Escape"]);
    pane.shows(&["▸● waiter"]);
    // Detail and back.
    pane.keys(&["Enter"]);
    insta::assert_snapshot!(pane.shows(&["waiter: detail · running", "attempt 1 sh"]), @"
    repo → main  ● 1 running  ○ 1 pending
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ── waiter: detail · running TIME · 1 line below ──
    ● waiter  Waits for a word
    state     running (TIME ago)
    agent     sh
    from      DIR/plan.md:5
    lane      DIR/repo.lanes/waiter
    attempt 1 sh · running for TIME · sandbox LEVEL
    Enter detail  l logs  d diff  s send  m msg  C cancel  ? help  Esc back
    ");
    pane.keys(&["Escape"]);
    // No means no.
    pane.keys(&["C"]);
    insta::assert_snapshot!(pane.shows(&["cancel waiter?", "\nhello from the lane"]), @"
    repo → main  ● 1 running  ○ 1 pending
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸● waiter running  TIME  hello from the lane
     ○ other  pending                      waits for waiter

    ── waiter: Waits for a word · attempt 1 by sh ──────────────────────────────────
    hello from the lane

    cancel waiter? its agent and everything it started are stopped; its work stays
    in its lane  [y/n]
    ");
    pane.keys(&["n"]);
    pane.shows(&["nothing was done"]);
    pane.keys(&["C", "y"]);
    insta::assert_snapshot!(pane.shows(&["▸– waiter", "– other", "\nhello from the lane"]), @"
    repo → main
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
     – other  skipped                      its dependency waiter was cancelled
    ▸– waiter cancelled                    by ada

    ── waiter: Waits for a word · attempt 1 by sh ──────────────────────────────────
    hello from the lane


    waiter will be cancelled by the run that holds it
    ");
    assert_eq!(world.regatta(["status", "waiter", "--json"]).exited(0).json()["state"], "cancelled");
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn the_terminal_is_given_back_when_it_is_ended_or_stopped() {
    let world = World::new(REGATTA);
    let pane = Pane::start(&world, (80, 8), "", "");
    insta::assert_snapshot!(pane.shows(&["no tasks yet"]), @r#"
    repo → main  no tasks yet
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    no tasks yet; `regatta run PLAN` or `regatta add "PROMPT"` adds some


    ── transcript ──────────────────────────────────────────────────────────────────

    / filter  ? help  q quit
    "#);
    let on = || pane.tmux(["display-message", "-p", "#{alternate_on}"]).trim() == "1";
    assert!(on());
    let pid = pane.pid();
    signal(pid, "TSTP");
    until("it has stopped and left the screen", || (!on()).then_some(()));
    signal(pid, "CONT");
    pane.shows(&["no tasks yet"]);
    assert!(on() && is_alive(pid));
    signal(pid, "TERM");
    pane.ended(130);
}

#[test]
fn the_terminal_is_given_back_after_a_defect() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (80, 24), "REGATTA_FAILPOINT=panic@top-drawn", "");
    let text = pane.until(|text| text.contains("ended "));
    assert!(text.contains("a test wanted this defect"), "its words are not swallowed: {text}");
    pane.ended(101);
}

#[test]
fn a_defect_of_one_key_does_not_end_it() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (100, 18), "REGATTA_FAILPOINT=panic@top-change", "");
    pane.shows(&["✕ broken"]);
    pane.keys(&["n", "p"]);
    insta::assert_snapshot!(pane.shows(&["a bug in `regatta top`", "$0.25  Do", "✓ finished"]), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken sim       failed                       the agent reported block: The oven is cold
     ✓ script sh        landed                       Run a script
     ✓ good   sim       landed                $0.25  Do something good
     – after  sim       skipped                      its dependency broken failed
    ── broken: Cannot succeed · attempt 1 by sim ───────────────────────────────────────────────────────

    the oven is cold

    ● Bash regatta done --verdict block

    broken attempt 1: verdict block recorded

    the oven is cold

    ✓ finished · 2 turns · $0.0000
    that did not work: a bug in `regatta top`; the command may work
    ");
    assert_eq!(pane.tmux(["display-message", "-p", "#{alternate_on}"]).trim(), "1");
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn it_goes_along_with_the_size_of_the_terminal() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (80, 24), "", "");
    insta::assert_snapshot!(pane.shows(&["✓ good", "$0.25  Do", "✓ finished"]), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken failed                       the agent reported block: The oven is co…
     ✓ script landed                       Run a script
     ✓ good   landed                $0.25  Do something good
     – after  skipped                      its dependency broken failed
    ── broken: Cannot succeed · attempt 1 by sim ───────────────────────────────────
    ▸ started, sim

    the oven is cold

    ● Bash regatta done --verdict block

    broken attempt 1: verdict block recorded

    the oven is cold

    ✓ finished · 2 turns · $0.0000





    Enter detail  l logs  d diff  / filter  s send  m msg  t retry  ? help  q quit
    ");
    pane.tmux(["resize-window", "-x", "30", "-y", "6"]);
    insta::assert_snapshot!(pane.shows(&["too small: 30×6"]), @"too small: 30×6, at least 40×8");
    pane.tmux(["resize-window", "-x", "150", "-y", "20"]);
    insta::assert_snapshot!(pane.shows(&["✓ good", "$0.25  Do", "│✓ finished"]), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken failed                       the agent reported block: The …│── broken: Cannot succeed · attempt 1 by sim ──────────────────────────────────
     ✓ script landed                       Run a script                   │▸ started, sim
     ✓ good   landed                $0.25  Do something good              │
     – after  skipped                      its dependency broken failed   │the oven is cold
                                                                          │
                                                                          │● Bash regatta done --verdict block
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
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn read_only_has_no_key_that_changes_anything() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (80, 24), "", "--read-only");
    pane.shows(&["read-only", "✕ broken"]);
    pane.keys(&["t", "R", "y", "m", "?"]);
    insta::assert_snapshot!(pane.shows(&["this help"]), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost                   read-only
     j k ↓ ↑          next and previous line
     g G Home End     first and last line
     ^d ^u PgDn PgUp  half a screen down and up
     Tab ⇧Tab ← →     next and previous pane, or column
     1–6 b            lanes, board, train, crew, events, cost; board by review
     Enter            everything about the task: attempts, verdicts, evidence
     l                its whole transcript
     d                what it changed
     n                next task that needs you
     /                only tasks with these words in id, title, state or agent
     Esc              back; clear the filter
     ? ^l ^z          this help; redraw; suspend
     q ^c             quit; agents keep running








    Esc back
    ");
    pane.keys(&["Escape", "q"]);
    pane.ended(0);
    assert_eq!(world.regatta(["status", "broken", "--json"]).exited(0).json()["state"], "failed");
}

#[test]
fn a_refusal_says_what_the_command_says() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (100, 19), "", "");
    pane.shows(&["✕ broken"]);
    // Its state does not allow parking.
    pane.keys(&["n", "p"]);
    insta::assert_snapshot!(pane.shows(&["cannot be parked", "$0.25  Do", "✓ finished"]), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken sim       failed                       the agent reported block: The oven is cold
     ✓ script sh        landed                       Run a script
     ✓ good   sim       landed                $0.25  Do something good
     – after  sim       skipped                      its dependency broken failed
    ── broken: Cannot succeed · attempt 1 by sim ───────────────────────────────────────────────────────

    the oven is cold

    ● Bash regatta done --verdict block

    broken attempt 1: verdict block recorded

    the oven is cold

    ✓ finished · 2 turns · $0.0000
    broken failed, so it cannot be parked; `regatta retry broken` tries again in its lane; `regatta
    requeue broken` starts it over in a fresh lane
    ");
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn what_agents_print_is_never_obeyed() {
    let world = World::new(REGATTA);
    let evil = r#"printf 'one \033]0;owned\007 \033[2J\033[31m two \302\233 three\n'; echo last"#;
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: evil\n    agent: sh\n    title: \"e\\e]2;owned\\avil\"\n    prompt: |\n      {evil}\n---\n"
    );
    world.run_plan(&plan);
    let pane = Pane::start(&world, (80, 10), "", "");
    insta::assert_snapshot!(pane.shows(&["\nlast"]), @"
    repo → main  ✓ 1 done
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✓ evil done                         e ]2;owned vil


    ── evil: e ]2;owned vil · attempt 1 by sh ──────────────────────────────────────
    one �]0;owned� �[2J two � three
    last

    Enter detail  l logs  d diff  / filter  s send  R requeue  ? help  q quit
    ");
    assert!(!pane.tmux(["display-message", "-p", "#{pane_title}"]).contains("owned"));
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn without_colour_there_is_none() {
    let world = World::after_plan(REGATTA);
    for (variables, flags, colored) in [
        ("NO_COLOR=1", "", false),
        ("", "--color never", false),
        ("NO_COLOR=1", "--color always", true),
        ("", "", true),
    ] {
        let pane = Pane::start(&world, (80, 24), variables, flags);
        pane.shows(&["✓ good", "▸✕ broken"]);
        let painted = pane.tmux(["capture-pane", "-p", "-e"]);
        let has_color = painted.split("\x1b[").skip(1).any(|part| {
            let codes = part.split('m').next().unwrap_or_default();
            codes.split(';').any(|code| matches!(code.parse(), Ok(30..=38 | 40..=48 | 90..=97)))
        });
        assert_eq!(has_color, colored, "{variables} {flags}: {painted:?}");
        pane.keys(&["q"]);
        pane.ended(0);
    }
}

#[test]
fn where_nothing_can_be_drawn_a_sentence_says_so() {
    let world = World::after_plan(REGATTA);
    insta::assert_snapshot!(world.regatta(["top"]).shown(), @"
    --- stderr
    error: regatta top needs a terminal
    hint: `regatta list -w` and `regatta events -f` need no terminal; `regatta top --once` prints one screen
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["top", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"the live screen cannot be JSON","hint":"`regatta top --once --json` prints one document; `regatta list -w --json` and `regatta events -f --json` keep printing","next":[{"text":"`regatta top --once --json` prints one document; `regatta list -w --json` and `regatta events -f --json` keep printing"}]}
    --- exit 2
    "#);
    let pane = Pane::start(&world, (100, 24), "TERM=dumb", "");
    insta::assert_snapshot!(pane.shows(&["ended "]), @"
    error: this terminal cannot draw a screen (TERM=dumb)
    hint: `regatta list -w` and `regatta events -f` need no terminal; `regatta top --once` prints one sc
    reen
    ended 2
    ");
    drop(pane);
    insta::assert_snapshot!(world.regatta(["top", "--size", "80x24"]).shown(), @"
    --- stderr
    error: the following required arguments were not provided:
      --once

    Usage: regatta top --once --size <WxH>

    For more information, try '--help'.
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["top", "--once", "--size", "80"]).shown(), @"
    --- stderr
    error: invalid value '80' for '--size <WxH>': expected a width and a height, such as 80x24

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn one_picture_and_one_document() {
    let world = World::after_plan(REGATTA);
    let text = world.regatta(["top", "--once", "--size", "80x24"]).exited(0).stdout;
    assert_eq!(text.lines().count(), 24);
    insta::assert_snapshot!(shown(&text), @"
    repo → main  ✕ 1 failed  ✓ 2 done  $0.25 today
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✕ broken failed                       the agent reported block: The oven is co…
     ✓ script landed                       Run a script
     ✓ good   landed                $0.25  Do something good
     – after  skipped                      its dependency broken failed
    ── broken: Cannot succeed · attempt 1 by sim ───────────────────────────────────
    ▸ started, sim

    the oven is cold

    ● Bash regatta done --verdict block

    broken attempt 1: verdict block recorded

    the oven is cold

    ✓ finished · 2 turns · $0.0000





    Enter detail  l logs  d diff  / filter  s send  m msg  t retry  ? help  q quit
    ");
    let document = world.regatta(["leader", "--once", "--json"]).exited(0).json();
    assert_eq!(document["counts"]["failed"], 1);
    assert_eq!(document["today"]["tokens_in"], 10);
    let tasks = document["tasks"].as_array().unwrap();
    let mut ids: Vec<&str> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["after", "broken", "good", "script"]);
    // Before there are any tasks the picture is empty.
    let empty = World::new(REGATTA);
    insta::assert_snapshot!(empty.regatta(["top", "--once", "--size", "80x8"]).shown(), @r#"
    repo → main  no tasks yet
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    no tasks yet; `regatta run PLAN` or `regatta add "PROMPT"` adds some


    ── transcript ──────────────────────────────────────────────────────────────────

    / filter  ? help  q quit
    "#);
}

#[test]
fn what_it_says_is_seen_as_it_is_said() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let path = world.waiting_plan(&fifo);
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (80, 14), "", "");
    pane.shows(&["\nhello"]);
    pane.keys(&["l"]);
    insta::assert_snapshot!(pane.shows(&["Esc back", "\nhello"]), @"
    repo → main  ● 1 running
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ── waiter: Wait for a word · attempt 1 by sh ───────────────────────────────────
    hello









    Enter detail  l logs  d diff  s send  m msg  C cancel  ? help  Esc back
    ");
    let_go(&fifo);
    pane.shows(&["\nbye"]);
    pane.keys(&["Escape"]);
    insta::assert_snapshot!(pane.shows(&["✓ waiter", "landed", "\nbye"]), @"
    repo → main  ✓ 1 done
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸✓ waiter landed                       Wait for a word


    ── waiter: Wait for a word · attempt 1 by sh ───────────────────────────────────
    hello
    bye





    Enter detail  l logs  d diff  / filter  s send  R requeue  ? help  q quit
    ");
    pane.keys(&["d"]);
    insta::assert_snapshot!(pane.shows(&["+++ b/waiter.txt"]), @"
    repo → main  ✓ 1 done
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ── waiter: what it changed · landed ────────────────────────────────────────────
    diff --git a/waiter.txt b/waiter.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/waiter.txt
    @@ -0,0 +1 @@
    +x



    Enter detail  l logs  d diff  s send  R requeue  ? help  Esc back
    ");
    pane.keys(&["q", "q"]);
    pane.ended(0);
}

#[test]
fn the_diff_of_a_live_agent_is_read_again() {
    let world = World::new(REGATTA);
    // Two of them: at the same one, the second `read` could find the writer that let the first one go.
    let (fifo, end) = (world.fifo("go"), world.fifo("end"));
    let script = format!(
        "echo one >x.txt; read go < {}; echo two >>x.txt; read go < {}",
        fifo.display(),
        end.display()
    );
    let path = world.plan_file(&format!(
        "---\nregatta: 1\ntasks:\n  - id: waiter\n    agent: sh\n    prompt: |\n      {script}\n---\n"
    ));
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (80, 14), "", "");
    pane.shows(&["waiter", "running"]);
    pane.keys(&["d"]);
    insta::assert_snapshot!(pane.shows(&["running TIME", "+one"]), @"
    repo → main  ● 1 running
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ── waiter: what it changed · running TIME ──
    diff --git a/x.txt b/x.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/x.txt
    @@ -0,0 +1 @@
    +one



    Enter detail  l logs  d diff  s send  m msg  C cancel  ? help  Esc back
    ");
    let_go(&fifo);
    insta::assert_snapshot!(pane.shows(&["running TIME", "+two"]), @"
    repo → main  ● 1 running
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ── waiter: what it changed · running TIME ──
    diff --git a/x.txt b/x.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/x.txt
    @@ -0,0 +1,2 @@
    +one
    +two


    Enter detail  l logs  d diff  s send  m msg  C cancel  ? help  Esc back
    ");
    let_go(&end);
}
