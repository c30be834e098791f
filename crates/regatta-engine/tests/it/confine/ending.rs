//! How confined trees end: as without a sandbox, and together with any of the processes above them.

use std::fs;
use std::path::Path;

use regatta_core::exit::Exit;
use regatta_core::sandbox::Level;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Running, World, eventually, everywhere, in_full, users};

#[test]
fn ends_look_as_without_a_sandbox() {
    everywhere(|world, document| {
        assert_eq!(world.shell(document, "exit 0").exit, Exit::Exited { code: 0 });
        assert_eq!(world.shell(document, "exit 200").exit, Exit::Exited { code: 200 });
        for signal in [1, 2, 6, 9, 10, 11, 15] {
            let ran = world.shell(document, &format!("kill -{signal} $$; sleep 60"));
            assert_eq!(ran.exit, Exit::Signalled { signal }, "{:?}", document.level);
        }
        let ran = world.run(document, &["no-such-program"]);
        let Exit::NeverStarted { error, .. } = &ran.exit else { panic!("{ran:?}") };
        assert_eq!(error, "no-such-program: No such file or directory (os error 2)");
    });
}

#[test]
fn the_program_has_a_group_and_signals_of_its_own() {
    everywhere(|world, document| {
        // A signal to its own group, an ignored one that stays unignored, and default actions.
        let script =
            "trap 'echo got' USR1; kill -USR1 -$$; trap 'echo int' INT; kill -INT 0; kill -TERM 0; sleep 60";
        let ran = world.shell(document, script);
        assert_eq!(
            (ran.stdout.as_str(), ran.exit),
            ("got\nint\n", Exit::Signalled { signal: 15 }),
            "{:?}",
            document.level
        );
    });
}

#[test]
fn what_is_left_over_is_counted_and_ended() {
    everywhere(|world, document| {
        let left = "setsid sleep 600 & (env -i sleep 600 &) ; exec > /dev/null 2>&1; echo $! ; exit 3";
        let running = world.start(Some(document), &["sh", "-c", left], json!({}));
        let run_dir = running.run_dir.clone();
        let ran = running.ended();
        assert_eq!(ran.exit, Exit::Exited { code: 3 });
        let record = Running::record(&run_dir);
        assert_eq!(record["leftovers"], 2, "{:?} as {:?}: {record}", document.level, world.user);
        assert_eq!(record["agent"], json!({ "kind": "exited", "code": 3 }), "{record}");
    });
}

#[test]
fn processor_time_is_counted() {
    in_full(|world, document| {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let running = world.start(Some(&document), &["sh", "-c", script], json!({}));
        let run_dir = running.run_dir.clone();
        running.ended();
        let seconds = Running::record(&run_dir)["cpu_seconds"].as_f64().unwrap();
        assert!(seconds >= 0.05, "{seconds}");
    });
}

#[test]
fn the_processes_between_the_shim_and_the_program_know_nothing_of_the_shim() {
    in_full(|world, document| {
        let secret = "a-secret-that-only-the-shim-knows";
        let hold = world.path("lock");
        fs::write(&hold, "").unwrap();
        world.give(&hold);
        let more = json!({ "secret": secret, "hold": hold });
        let running = world.start(Some(&document), &["sleep", "7777"], more);
        let first = running.confined.as_ref().unwrap().first.unwrap();
        assert!(remembers(running.shim, secret), "the search finds nothing");
        for pid in [running.agent, first] {
            assert!(!remembers(pid, secret), "{pid}");
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
            assert_eq!(words[1], b"confine");
            assert_eq!(words[words.len() - 2..], [b"sleep".as_slice(), b"7777"], "{words:?}");
            let mut open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .filter_map(|entry| Some(fs::read_link(entry.unwrap().path()).ok()?.display().to_string()))
                .filter(|target| !target.starts_with("pipe:") && target != "/dev/null")
                .collect();
            open.sort();
            assert_eq!(open, [hold.to_str().unwrap()]);
        }
        kill(running.shim);
    });
}

/// Whether the text is somewhere in the writable memory of a process.
fn remembers(pid: u32, text: &str) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        memory.read_exact_at(&mut bytes, from).is_ok()
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// A tree that hides: own sessions, no environment, forked twice. Returns the pids outside.
fn hiding(world: &World, document: &regatta_core::sandbox::Confinement, hold: &Path) -> (Running, Vec<u32>) {
    let script =
        "(env -i setsid sleep 7777 &) ; setsid sh -c 'env -i sleep 7777 & sleep 7777' & echo up; sleep 7777";
    let running = world.start(Some(document), &["sh", "-c", script], json!({ "hold": hold }));
    let stdout = running.run_dir.join("stdout");
    eventually("the tree is up", || fs::read_to_string(&stdout).is_ok_and(|text| text.contains("up")));
    let mut pids = Vec::new();
    eventually("all four sleep", || {
        pids = descendants(running.shim);
        pids.iter().filter(|pid| is_sleeping(**pid)).count() == 4
    });
    (running, pids)
}

fn descendants(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let children: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        found.extend(&children);
        parents.extend(children);
    }
    found
}

fn is_sleeping(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x007777"))
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

fn is_held(path: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let file = fs::File::open(path).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[test]
fn killing_the_shim_stage_one_or_the_first_process_ends_the_whole_tree() {
    in_full(|world, document| {
        for victim in ["shim", "stage 1", "first"] {
            let hold = world.path(&format!("runs/hold-{}", victim.replace(' ', "-")));
            let (running, pids) = hiding(world, &document, &hold);
            assert!(is_held(&hold), "the lock is held while the tree lives");
            let first = running.confined.as_ref().unwrap().first.unwrap();
            kill(match victim {
                "shim" => running.shim,
                "stage 1" => running.agent,
                _ => first,
            });
            let exit = running.ended().exit;
            eventually(&format!("the tree has ended after kill -9 of the {victim}"), || {
                !pids.iter().any(|pid| is_sleeping(*pid))
            });
            assert!(!is_held(&hold));
            let expected = if victim == "shim" { Exit::Lost } else { Exit::Signalled { signal: 9 } };
            assert_eq!(exit, expected, "{victim}");
        }
    });
}

#[test]
fn killing_the_shim_ends_the_program_at_the_files_level() {
    for user in users() {
        let world = World::new(user);
        let running = world.start(Some(&world.document(Level::Files)), &["sleep", "7777"], json!({}));
        let agent = running.agent;
        eventually("it sleeps", || is_sleeping(agent));
        kill(running.shim);
        eventually("it has ended", || !is_sleeping(agent));
        assert_eq!(running.ended().exit, Exit::Lost);
    }
}

#[test]
fn the_lock_is_held_at_the_files_level_by_each_process() {
    let world = World::new(None);
    let hold = world.path("runs/hold");
    let script = "setsid sleep 7777 > /dev/null 2>&1 & echo up; sleep 7777";
    let running =
        world.start(Some(&world.document(Level::Files)), &["sh", "-c", script], json!({ "hold": hold }));
    let stdout = running.run_dir.join("stdout");
    eventually("the tree is up", || fs::read_to_string(&stdout).is_ok_and(|text| text.contains("up")));
    let (shim, agent) = (running.shim, running.agent);
    let mut left = Vec::new();
    eventually("it sleeps", || {
        left = descendants(agent);
        left.iter().filter(|pid| is_sleeping(**pid)).count() == 2
    });
    kill(shim);
    running.ended();
    eventually("the program has ended", || !Path::new(&format!("/proc/{agent}/exe")).exists());
    let alive: Vec<u32> = left.into_iter().filter(|pid| is_sleeping(*pid)).collect();
    assert!(!alive.is_empty() && is_held(&hold), "what was left holds it");
    alive.into_iter().for_each(kill);
    eventually("the lock is free", || !is_held(&hold));
}

#[test]
fn an_interrupt_reaches_the_program_once_and_the_grace_is_its_own() {
    everywhere(|world, document| {
        // Its tool dies of the interrupt as well; it takes its leave itself.
        let script = "trap 'echo int; n=1' INT; echo up; while [ -z \"$n\" ]; do sleep 7777; done; sleep 0.2; echo bye; exit 5";
        let running = world.start(Some(document), &["sh", "-c", script], json!({}));
        let (run_dir, shim) = (running.run_dir.clone(), running.shim);
        eventually("it is up", || {
            fs::read_to_string(run_dir.join("stdout")).is_ok_and(|text| text.contains("up"))
                && descendants(shim).iter().any(|pid| is_sleeping(*pid))
        });
        kill_process(Pid::from_raw(shim.try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
        let ran = running.ended();
        assert_eq!(ran.stdout, "up\nint\nbye\n", "{:?} as {:?}", document.level, world.user);
        assert!(matches!(ran.exit, Exit::Stopped { .. }), "{ran:?}");
        let record = Running::record(&run_dir);
        assert_eq!(record["agent"], json!({ "kind": "exited", "code": 5 }), "{record}");
        assert_eq!(record["leftovers"], 0, "{record}");
    });
}

#[test]
fn what_had_to_be_killed_is_counted_as_without_a_sandbox() {
    let world = World::new(None);
    let full = world.document(Level::Full);
    for document in [None, Some(&full)] {
        let script = "trap '' INT; sleep 7777 & sleep 7777";
        let running = world.start(document, &["sh", "-c", script], json!({}));
        let (run_dir, shim) = (running.run_dir.clone(), running.shim);
        eventually("both sleep", || descendants(shim).iter().filter(|pid| is_sleeping(**pid)).count() == 2);
        let ask = || kill_process(Pid::from_raw(shim.try_into().unwrap()).unwrap(), Signal::USR1).unwrap();
        ask();
        let ran = running.ended();
        assert!(matches!(ran.exit, Exit::Stopped { .. }), "{ran:?}");
        let record = Running::record(&run_dir);
        assert_eq!(record["leftovers"], 2, "{record}");
        assert_eq!(record["agent"], json!({ "kind": "signalled", "signal": 9 }), "{record}");
    }
}
