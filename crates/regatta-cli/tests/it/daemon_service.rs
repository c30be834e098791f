//! The daemon as a service: it accepts the command lines that the documentation gives for systemd and pm2, and systemd
//! is notified when it is ready, reloads and ends.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use regatta_testkit::daemon::until;
use regatta_testkit::shown::shown;
use regatta_testkit::world::World;

use crate::REGATTA;

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// The words after `regatta` in the lines that begin so, which are all the same.
fn documented(beginning: &str) -> Vec<&'static str> {
    let mut lines: Vec<&str> = OPERATIONS.lines().filter_map(|line| line.strip_prefix(beginning)).collect();
    lines.dedup();
    let [line] = lines[..] else { panic!("{} different lines begin with {beginning}", lines.len()) };
    line.split_whitespace().collect()
}

fn heard(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let n = socket.recv(&mut buffer).expect("systemd is told");
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

#[test]
fn the_unit_starts_it_and_systemd_hears_how_it_is() {
    let mut world = World::new(REGATTA);
    let path = world.outside("notify.socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    world.env("NOTIFY_SOCKET", &path);
    let words = documented("ExecStart=/usr/local/bin/regatta ");
    assert!(OPERATIONS.contains("\nType=notify\n") && OPERATIONS.contains("\nKillMode=process\n"));
    let daemon = world.begin(&words);
    assert_eq!(heard(&socket), "READY=1");
    until("it serves", || (world.daemon_pid() == Some(daemon.pid())).then_some(()));
    // ExecReload.
    daemon.signal("HUP");
    assert_eq!([heard(&socket), heard(&socket)], ["RELOADING=1", "READY=1"]);
    // A file with mistakes does not leave it unready forever.
    world.repo().write("regatta.yaml", "max_workers: none\n");
    daemon.signal("HUP");
    assert_eq!([heard(&socket), heard(&socket)], ["RELOADING=1", "READY=1"]);
    daemon.signal("TERM");
    assert_eq!(heard(&socket), "STOPPING=1");
    daemon.wait().exited(0);
}

#[test]
fn an_abstract_socket_will_do_and_one_that_nobody_listens_to_is_no_trouble() {
    use std::os::linux::net::SocketAddrExt;
    let mut world = World::new(REGATTA);
    let name = format!("regatta-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    world.env("NOTIFY_SOCKET", format!("@{name}"));
    let daemon = world.daemon();
    assert_eq!(heard(&socket), "READY=1");
    drop(socket);
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn the_line_for_pm2_starts_it() {
    let world = World::new(REGATTA);
    let words = documented("pm2 start regatta ");
    let split = words.iter().position(|word| *word == "--").expect("what is regatta's stands behind --");
    assert!(words[..split].contains(&"--no-treekill"), "{words:?}");
    let daemon = world.begin(&words[split + 1..]);
    until("it serves", || (world.daemon_pid() == Some(daemon.pid())).then_some(()));
    // The first signal of pm2.
    daemon.signal("INT");
    daemon.wait().exited(0);
}

#[test]
fn a_second_one_is_refused_with_the_first_ones_process_in_every_spelling() {
    let mut world = World::new(REGATTA);
    let daemon = world.daemon();
    let pid = daemon.pid().to_string();
    for words in [&["daemon"][..], &["daemon", "run"], &["daemon", "start"], &["daemon", "run", "--detached"]]
    {
        let refused = world.regatta(words).exited(6).stderr;
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&refused.replace(&pid, "THE-FIRST")), @"
            error: a daemon already serves this project: process THE-FIRST
            hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
            ");
        }
    }
    world.use_program(env!("CARGO_BIN_EXE_regatta-daemon").as_ref());
    insta::assert_snapshot!(world.regatta([""; 0]).shown(), @"
    --- stderr
    error: a daemon already serves this project: process PID
    hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["start"]).shown(), @"
    --- stderr
    error: a daemon already serves this project: process PID
    hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
    --- exit 6
    ");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}
