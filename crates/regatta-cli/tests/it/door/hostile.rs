//! Knocks of an agent that wants to do harm. After each, an honest request is answered, and nothing outside changed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regatta_testkit::daemon::until;
use serde_json::Value;

use super::Doorway;

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A client by hand.
struct Raw {
    request: File,
    answer: File,
}

impl Raw {
    fn knock(dir: &Path, id: &str) -> Self {
        let at = |end: &str| dir.join(format!("{id}{end}"));
        for end in [".in", ".out"] {
            fifo(&at(end));
        }
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let answer = OpenOptions::new().read(true).custom_flags(nonblocking).open(at(".out")).unwrap();
        let request =
            OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(at(".in")).unwrap();
        knock(dir, id);
        // There is none after the end.
        if let Ok(mut bell) = OpenOptions::new().write(true).custom_flags(nonblocking).open(dir.join("bell"))
        {
            bell.write_all(b"x").unwrap();
        }
        Self { request, answer }
    }

    /// Writes as much as is taken, and returns how many bytes that was.
    fn send(&mut self, bytes: &[u8]) -> usize {
        self.request.write(bytes).unwrap_or(0)
    }

    fn answer(&mut self) -> Value {
        let line = until("an answer comes", || {
            let mut text = vec![0; 64 * 1024];
            let n = self.answer.read(&mut text).ok().filter(|n| *n > 0)?;
            Some(String::from_utf8_lossy(&text[..n]).into_owned())
        });
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

fn knock(dir: &Path, id: &str) {
    let tmp = dir.join(format!("{id}.tmp"));
    fs::write(&tmp, "").unwrap();
    fs::rename(tmp, dir.join(format!("{id}.knock"))).unwrap();
}

/// Memory of the shim in kB, and how many descriptors it has.
fn size(pid: u32) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    (kb.unwrap().trim().parse().unwrap(), fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
}

#[test]
fn what_is_no_pair_of_fifos_is_not_opened() {
    let door = Doorway::new();
    let dir = &door.dir;
    let secret = door.world.outside("secret");
    fs::write(&secret, "untouched").unwrap();
    let at = |id: &str, end: &str| -> PathBuf { dir.join(format!("{id}{end}")) };
    // Links to a file, to FIFOs elsewhere, to a device; a directory; a socket; files; a knock that is a directory.
    let elsewhere = door.world.outside("elsewhere");
    fifo(&elsewhere);
    let targets =
        [secret.clone(), elsewhere, "/dev/zero".into(), "/dev/tty".into(), "/proc/self/environ".into()];
    for (n, target) in targets.iter().enumerate() {
        let id = format!("{n:016x}");
        symlink(target, at(&id, ".in")).unwrap();
        symlink(target, at(&id, ".out")).unwrap();
        knock(dir, &id);
    }
    for (n, make) in [fs::create_dir as fn(PathBuf) -> std::io::Result<()>, |path| fs::write(path, "x")]
        .into_iter()
        .enumerate()
    {
        let id = format!("a{n:015x}");
        make(at(&id, ".in")).unwrap();
        make(at(&id, ".out")).unwrap();
        knock(dir, &id);
    }
    let _socket = std::os::unix::net::UnixListener::bind(at("b000000000000000", ".in")).unwrap();
    fifo(&at("b000000000000000", ".out"));
    knock(dir, "b000000000000000");
    fs::create_dir(dir.join("dir")).unwrap();
    fs::rename(dir.join("dir"), dir.join("cccccccccccccccc.knock")).unwrap();
    symlink(&secret, dir.join("dddddddddddddddd.tmp")).unwrap();
    fs::rename(dir.join("dddddddddddddddd.tmp"), dir.join("dddddddddddddddd.knock")).unwrap();
    for name in ["x.knock", "0123456789ABCDEF.knock", "..knock", "00000000000000001.knock"] {
        fs::write(dir.join("t"), "").unwrap();
        fs::rename(dir.join("t"), dir.join(name)).unwrap();
    }
    door.run(["progress", "still here"]).exited(0);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
    assert!(door.end_agent().agent.is_some());
}

#[test]
fn half_a_line_and_a_line_without_end_hold_nobody_up() {
    let door = Doorway::new();
    let mut halves: Vec<Raw> = (0..4).map(|n| Raw::knock(&door.dir, &format!("{n:016x}"))).collect();
    for half in &mut halves {
        half.send(b"{\"v\":1,\"verb\":\"tool\",\"na");
    }
    let mut endless = Raw::knock(&door.dir, "eeeeeeeeeeeeeeee");
    let chunk = vec![b'x'; 32 * 1024];
    let (begun, before) = (Instant::now(), size(door.shim_pid()));
    // Two gigabytes are offered. It closes its end long before; then the pipe is full.
    let mut taken = 0;
    while begun.elapsed() < Duration::from_secs(3) && taken < 2_000_000_000 {
        taken += endless.send(&chunk);
    }
    assert!(taken < 4_000_000, "{taken} bytes were taken");
    insta::assert_snapshot!(endless.answer()["error"]["message"].as_str().unwrap(), @"the request is longer than 1 MiB");
    assert!(size(door.shim_pid()).0 < before.0 + 20_000, "memory is bounded");
    door.run(["progress", "meanwhile"]).exited(0);
    for half in &mut halves {
        assert!(half.answer()["error"]["message"].as_str().unwrap().contains("within 10 seconds"));
    }
}

#[test]
fn a_request_names_neither_attempt_nor_path_and_other_verbs_do_not_exist() {
    let door = Doorway::new();
    let lines = [
        r#"{"v":1,"verb":"tool","name":"enqueue","arguments":{"prompt":"x"}}"#,
        r#"{"v":1,"verb":"shell","name":"sh"}"#,
        r#"{"v":2,"verb":"mcp"}"#,
        "not json",
        r#"{"v":1,"verb":"tool","name":"done","arguments":{"verdict":"great"}}"#,
        r#"{"v":1,"verb":"tool","name":"send_message","arguments":{"to":"../../x","content":"x"}}"#,
    ];
    for (n, line) in lines.iter().enumerate() {
        let mut client = Raw::knock(&door.dir, &format!("{n:016x}"));
        client.send(format!("{line}\n").as_bytes());
        assert!(client.answer()["error"]["message"].is_string(), "{line}");
    }
    // Another task's name in the arguments counts for nothing.
    let mut client = Raw::knock(&door.dir, "ffffffffffffffff");
    let line = r#"{"v":1,"verb":"tool","name":"progress","task":"other","attempt":9,"token":"t","arguments":{"label":"mine","detail":null,"phase":null}}"#;
    client.send(format!("{line}\n").as_bytes());
    assert_eq!(client.answer()["ok"], serde_json::json!({ "task": "talker", "attempt": 1 }));
}

#[test]
fn ten_thousand_knocks_cost_the_shim_nothing() {
    let door = Doorway::new();
    let before = size(door.shim_pid());
    for n in 0..10_000_u64 {
        knock(&door.dir, &format!("{n:016x}"));
    }
    until("the flood is cleared away", || (fs::read_dir(&door.dir).ok()?.count() == 1).then_some(()));
    door.run(["progress", "after the flood"]).exited(0);
    let after = size(door.shim_pid());
    assert!(after.0 < before.0 + 10_000 && after.1 <= before.1 + 4, "{before:?} {after:?}");
}

#[test]
fn an_agent_that_removes_or_replaces_its_bell_is_served_later() {
    let door = Doorway::new();
    let bell = door.dir.join("bell");
    fs::remove_file(&bell).unwrap();
    door.run(["progress", "no bell"]).exited(0);
    fs::write(&bell, "a file").unwrap();
    door.run(["progress", "a file"]).exited(0);
    fs::remove_file(&bell).unwrap();
    // Nobody reads this one.
    fifo(&bell);
    door.run(["progress", "another FIFO"]).exited(0);
    assert_eq!(door.events("progressed").len(), 3);
}

#[test]
fn a_bell_that_rings_all_the_time_keeps_nobody_out() {
    let door = Doorway::new();
    let mut bell = OpenOptions::new().write(true).open(door.dir.join("bell")).unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let ringing = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            bell.write_all(&[b'x'; 4096]).unwrap();
        }
    });
    door.run(["progress", "in the noise"]).exited(0);
    stop.send(()).unwrap();
    ringing.join().unwrap();
}

#[test]
fn too_much_progress_is_refused_and_the_report_is_not() {
    let door = Doorway::new();
    let line =
        r#"{"v":1,"verb":"tool","name":"progress","arguments":{"label":"x","detail":null,"phase":null}}"#;
    let mut refused = 0;
    for n in 0..70 {
        let mut client = Raw::knock(&door.dir, &format!("{n:016x}"));
        client.send(format!("{line}\n").as_bytes());
        refused +=
            usize::from(client.answer()["error"]["message"].as_str().is_some_and(|why| why.contains("60")));
    }
    assert_eq!(refused, 10);
    door.run(["done", "--verdict", "pass"]).exited(0);
}

#[test]
fn after_the_end_nobody_opens() {
    let door = Doorway::new();
    door.run(["progress", "x"]).exited(0);
    door.end_agent();
    let mut late = Raw::knock(&door.dir, "0000000000000001");
    late.send(b"{\"v\":1,\"verb\":\"tool\",\"name\":\"stuck\",\"arguments\":{\"why\":\"x\"}}\n");
    assert!(door.dir.join("0000000000000001.knock").exists());
    assert!(door.events("stuck").is_empty());
}

#[test]
fn neither_the_shim_s_workers_nor_its_command_line_show_the_token() {
    let door = Doorway::new();
    // A worker that stays: an MCP client that says nothing.
    let mut client = Raw::knock(&door.dir, "0000000000000001");
    client.send(b"{\"v\":1,\"verb\":\"mcp\"}\n");
    let shim = door.shim_pid();
    let children = format!("/proc/{shim}/task");
    let workers = until("a worker runs", || {
        let tasks = fs::read_dir(&children).ok()?.flatten();
        let below = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let below: Vec<String> =
            below.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
        let is_worker = |pid: &String| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"worker"))
        };
        Some(below.into_iter().filter(is_worker).collect::<Vec<_>>()).filter(|found| !found.is_empty())
    });
    let note = fs::read_to_string(door.world.outside("note")).unwrap();
    let token = note.split_whitespace().next().unwrap();
    for pid in workers.iter().chain([&shim.to_string()]) {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(token), "{file} of {pid}");
        }
    }
    // It does not hold the lane's lock.
    let lock = fs::canonicalize(door.world.outside("hold.lock")).unwrap();
    for pid in &workers {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        assert!(open.into_iter().all(|fd| fs::read_link(fd.path()).ok().as_deref() != Some(lock.as_path())));
    }
    let begun = Instant::now();
    drop(client);
    let record = door.end_agent();
    assert_eq!(record.leftovers, 0, "a worker is no part of the tree");
    assert!(begun.elapsed() < Duration::from_secs(4), "it ended with its client: {:?}", begun.elapsed());
}
