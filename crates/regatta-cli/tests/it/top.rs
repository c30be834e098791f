//! `regatta top`, on a terminal played by tmux, and as one picture.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use regatta_testkit::daemon::{DEADLINE, is_alive, signal, until, within};
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
    let pane = Pane::start(&world, (80, 24), "", "");
    let text = pane.until(|text| text.contains("● waiter") && text.contains("\nhello from the lane"));
    assert!(text.contains("Waits for a word") && text.contains("○ other"), "{text}");
    assert!(text.contains("waits for waiter"), "{text}");
    // The filter, while it is typed.
    pane.keys(&["/", "oth"]);
    pane.until(|text| text.contains("○ other") && !text.contains("● waiter"));
    pane.keys(&["er"]);
    pane.until(|text| text.contains("/other"));
    pane.keys(&["Escape"]);
    pane.until(|text| text.contains("▸● waiter"));
    // Detail and back.
    pane.keys(&["Enter"]);
    pane.until(|text| text.contains("waiter: detail · running") && text.contains("attempt 1 sh"));
    pane.keys(&["Escape"]);
    // No means no.
    pane.keys(&["C"]);
    pane.until(|text| text.contains("cancel waiter? its agent and everything it started are stopped"));
    pane.keys(&["n"]);
    pane.until(|text| text.contains("nothing was done"));
    pane.keys(&["C", "y"]);
    pane.until(|text| text.contains("– waiter") && text.contains("– other"));
    assert_eq!(world.regatta(["status", "waiter", "--json"]).exited(0).json()["state"], "cancelled");
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn the_terminal_is_given_back_when_it_is_ended_or_stopped() {
    let world = World::new(REGATTA);
    let pane = Pane::start(&world, (80, 24), "", "");
    pane.until(|text| text.contains("no tasks yet"));
    let on = || pane.tmux(["display-message", "-p", "#{alternate_on}"]).trim() == "1";
    assert!(on());
    let pid = pane.pid();
    signal(pid, "TSTP");
    until("it has stopped and left the screen", || (!on()).then_some(()));
    signal(pid, "CONT");
    pane.until(|text| text.contains("no tasks yet"));
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
    let pane = Pane::start(&world, (100, 24), "REGATTA_FAILPOINT=panic@top-change", "");
    pane.until(|text| text.contains("✕ broken"));
    pane.keys(&["n", "p"]);
    let text = pane.until(|text| text.contains("a bug in `regatta top`"));
    assert!(text.contains("▸✕ broken"), "{text}");
    assert_eq!(pane.tmux(["display-message", "-p", "#{alternate_on}"]).trim(), "1");
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn it_goes_along_with_the_size_of_the_terminal() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (80, 24), "", "");
    pane.until(|text| text.contains("✓ good"));
    pane.tmux(["resize-window", "-x", "30", "-y", "6"]);
    pane.until(|text| text.contains("too small: 30×6"));
    pane.tmux(["resize-window", "-x", "150", "-y", "40"]);
    pane.until(|text| text.lines().any(|line| line.contains("✓ good") && line.contains('│')));
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn read_only_has_no_key_that_changes_anything() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (80, 24), "", "--read-only");
    pane.until(|text| text.contains("read-only") && text.contains("✕ broken"));
    pane.keys(&["t", "R", "y", "m", "?"]);
    let help = pane.until(|text| text.contains("this help"));
    assert!(!help.contains("requeue") && !help.contains("message:"), "{help}");
    pane.keys(&["Escape", "q"]);
    pane.ended(0);
    assert_eq!(world.regatta(["status", "broken", "--json"]).exited(0).json()["state"], "failed");
}

#[test]
fn a_refusal_says_what_the_command_says() {
    let world = World::after_plan(REGATTA);
    let pane = Pane::start(&world, (100, 24), "", "");
    pane.until(|text| text.contains("✕ broken"));
    // Its state does not allow parking.
    pane.keys(&["n", "p"]);
    pane.until(|text| {
        text.contains("broken failed, so it cannot be parked") && text.contains("regatta retry")
    });
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
    let pane = Pane::start(&world, (80, 24), "", "");
    let text = pane.until(|text| text.contains("\nlast"));
    assert!(text.contains("one �]0;owned� �[2J two � three"), "{text}");
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
        pane.until(|text| text.contains("✓ good") && text.contains("▸✕ broken"));
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
    let refused = world.regatta(["top"]).exited(2);
    assert!(
        refused.stderr.contains("needs a terminal") && refused.stderr.contains("--once"),
        "{}",
        refused.stderr
    );
    let json = world.regatta(["top", "--json"]).exited(2).error();
    assert!(json["hint"].as_str().unwrap().contains("regatta list -w --json"), "{json}");
    let pane = Pane::start(&world, (100, 24), "TERM=dumb", "");
    pane.until(|text| text.contains("TERM=dumb") && text.contains("hint:") && text.contains("ended 2"));
    drop(pane);
    world.regatta(["top", "--size", "80x24"]).exited(2);
    world.regatta(["top", "--once", "--size", "80"]).exited(2);
}

#[test]
fn one_picture_and_one_document() {
    let world = World::after_plan(REGATTA);
    let text = world.regatta(["top", "--once", "--size", "80x24"]).exited(0).stdout;
    assert_eq!(text.lines().count(), 24);
    for part in ["✓ good", "✕ broken", "– after", "reported block: The oven", "$0.25 today"] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    let document = world.regatta(["leader", "--once", "--json"]).exited(0).json();
    assert_eq!(document["counts"]["failed"], 1);
    assert_eq!(document["today"]["tokens_in"], 10);
    let tasks = document["tasks"].as_array().unwrap();
    let mut ids: Vec<&str> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["after", "broken", "good", "script"]);
    // Before there are any tasks the picture is empty.
    let empty = World::new(REGATTA);
    assert!(empty.regatta(["top", "--once"]).exited(0).stdout.contains("no tasks yet"));
}

#[test]
fn what_it_says_is_seen_as_it_is_said() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let path = world.waiting_plan(&fifo);
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (80, 24), "", "");
    pane.until(|text| text.contains("\nhello"));
    pane.keys(&["l"]);
    pane.until(|text| text.contains("Esc back") && text.contains("\nhello"));
    let_go(&fifo);
    pane.until(|text| text.contains("\nbye"));
    pane.keys(&["Escape"]);
    pane.until(|text| text.contains("✓ waiter") && text.contains("landed"));
    pane.keys(&["d"]);
    pane.until(|text| text.contains("+++ b/waiter.txt"));
    pane.keys(&["q", "q"]);
    pane.ended(0);
}

#[test]
fn the_diff_of_a_live_agent_is_read_again() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let script = format!("echo one >x.txt; read go < {0}; echo two >>x.txt; read go < {0}", fifo.display());
    let path = world.plan_file(&format!(
        "---\nregatta: 1\ntasks:\n  - id: waiter\n    agent: sh\n    prompt: |\n      {script}\n---\n"
    ));
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (80, 24), "", "");
    pane.until(|text| text.contains("waiter") && text.contains("running"));
    pane.keys(&["d"]);
    pane.until(|text| text.contains("+one"));
    let_go(&fifo);
    pane.until(|text| text.contains("+two"));
    let_go(&fifo);
}
