//! Nothing that an agent, a task or a message writes controls a terminal or becomes active in a report.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use regatta_testkit::world::{World, task};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::REGATTA;

/// A window title, a clipboard, a cleared screen, a hidden text, a C1 introducer and a changed writing direction.
const EVIL: &str = r"\033]0;EVIL\007\033]52;c;RVZJTA==\007\033[2J\033[8m\302\233\061mX\342\200\256Y\r";

/// Runs `regatta` on a terminal and returns every byte that it writes there.
fn on_a_terminal(world: &World, args: &[&str]) -> Vec<u8> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = File::options().read(true).write(true).open(name).unwrap();
    let mut command = Command::new(REGATTA);
    command.current_dir(world.root()).env_clear().envs(world.repo().env()).env("TERM", "xterm").args(args);
    command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut seen = Vec::new();
    // Reading the terminal ends with an error once no process has it open.
    let _ = File::from(master).read_to_end(&mut seen);
    child.wait().unwrap();
    seen
}

/// The control characters in it that a terminal would obey: all but line ends, tabs and Regatta's own colours.
fn obeyed(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(|c: char| {
        c.is_control() && !matches!(c, '\n' | '\r' | '\t') || matches!(c, '\u{202a}'..='\u{202e}')
    }) {
        let begins = &rest[at..];
        let colour = ["0", "1", "2", "31", "32", "33", "36"].map(|code| format!("\x1b[{code}m"));
        match colour.iter().find(|colour| begins.starts_with(colour.as_str())) {
            Some(colour) => rest = &begins[colour.len()..],
            None => {
                found.push(format!("{:?}", begins.chars().take(12).collect::<String>()));
                rest = &begins[begins.chars().next().map_or(1, char::len_utf8)..];
            }
        }
    }
    found
}

#[track_caller]
fn harmless(world: &World, args: &[&str]) -> String {
    let seen = on_a_terminal(world, args);
    assert_eq!(obeyed(&seen), Vec::<String>::new(), "{args:?}: {}", String::from_utf8_lossy(&seen));
    String::from_utf8_lossy(&seen).into_owned()
}

/// An agent that writes them wherever it can.
fn attacked() -> (World, std::path::PathBuf) {
    let world = World::without_sandbox(REGATTA);
    let evil = |then: &str| format!("evil=$(printf '{EVIL}')\nprintf '{EVIL}\\n'\n{then}");
    let plan = world.plan(
        &[
            task("done", "", &evil("echo x >\"$evil\"; git add -A; git commit -qm \"$evil\"; regatta progress \"$evil\"; regatta ctx set key \"$evil\"; regatta done --verdict warn --summary \"$evil <script>alert(1)</script> ![x](http://evil.example/x.png) [y](http://evil.example)\"")),
            task("stuck", "", &evil("regatta stuck \"$evil\"")),
            task("checked", "checks: [\"cat lines; exit 1\"]", &evil("printf \"$evil\\n\" >lines")),
        ]
        .concat(),
    );
    (world, plan)
}

#[test]
fn no_control_sequence_reaches_a_terminal() {
    let (world, plan) = attacked();
    let plan = plan.to_str().unwrap();
    let shown = harmless(&world, &["run", "--no-dashboard", "-v", plan]);
    assert!(shown.contains("EVIL"), "the text itself is shown: {shown}");
    for args in [
        &["status", "done"][..],
        &["status", "stuck"],
        &["status", "checked"],
        &["report"],
        &["list", "--status", "all"],
        &["events"],
        &["logs", "done"],
        &["logs", "done", "--raw"],
        &["logs", "checked"],
        &["ctx", "get", "key"],
        &["ctx", "list"],
        &["diff", "done"],
        &["diff", "done", "--name-only"],
        &["land", "status"],
        &["land", "history", "done"],
        &["status", "done", "--json"],
        &["report", "--json"],
        &["status", "no\u{1b}]0;x\u{7}such"],
    ] {
        harmless(&world, args);
    }
}

#[test]
fn what_is_piped_stays_as_it_was_written() {
    let (world, plan) = attacked();
    world.run(&plan, &[]).exited(1);
    let raw = world.regatta(["logs", "done", "--raw"]).exited(0);
    assert!(raw.stdout.contains("\x1b]0;EVIL\x07"), "{:?}", raw.stdout);
    let value = world.regatta(["ctx", "get", "key"]).exited(0);
    assert!(value.stdout.contains("\x1b]0;EVIL\x07"), "{:?}", value.stdout);
}

#[test]
fn nothing_in_a_report_becomes_active() {
    let (world, plan) = attacked();
    let report = world.outside("report.md");
    world.run(&plan, &["--report", report.to_str().unwrap()]).exited(1);
    let page = std::fs::read_to_string(&report).unwrap();
    assert_eq!(obeyed(page.as_bytes()), Vec::<String>::new());
    assert!(page.contains("script"), "{page}");
    for active in ["<script", "![x]", "[y](", "http://evil"] {
        assert!(!page.contains(active), "{active} in {page}");
    }
}
