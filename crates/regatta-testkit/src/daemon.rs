//! A daemon in a [`World`]: started, waited for, killed; and its store, read directly.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::world::{Running, World};

/// Time between two checks of a condition without a wake-up.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than anything takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Checks repeatedly until `condition` returns a value; panics with `what` if it never does.
#[track_caller]
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, condition).unwrap_or_else(|| panic!("it did not come to pass: {what}"))
}

/// The same without a panic.
pub fn within<T>(patience: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = condition() {
            return Some(answer);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

impl World {
    /// The state directory.
    pub fn state_dir(&self) -> PathBuf {
        self.root().join(".regatta")
    }

    /// Runs in the foreground; returns when its store knows it. It may also die before that, as with failpoints.
    pub fn daemon(&self) -> Running {
        let mut daemon = self.begin(["daemon"]);
        let pid = daemon.pid();
        until("the daemon says who it is", || {
            let serves = self.daemon_info().is_some_and(|info| info["is_starting"].is_null());
            (serves && self.daemon_pid() == Some(pid) || daemon.has_ended()).then_some(())
        });
        daemon
    }

    /// The process that `daemon.json` names.
    pub fn daemon_pid(&self) -> Option<u32> {
        u32::try_from(self.daemon_info()?["identity"]["pid"].as_u64()?).ok()
    }

    fn daemon_info(&self) -> Option<Value> {
        let text = fs::read_to_string(self.state_dir().join("daemon.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Adds a plan to the daemon's queue.
    #[track_caller]
    pub fn enqueue(&self, plan: &Path) {
        self.regatta(["enqueue".as_ref(), plan.as_os_str()]).exited(0);
    }

    /// The database, opened directly.
    pub fn database(&self) -> Connection {
        let db = Connection::open_with_flags(
            self.state_dir().join("regatta.db"),
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .expect("there is a store");
        db.busy_timeout(DEADLINE).expect("a timeout can be set");
        db
    }

    /// `(id, state)` of every task, sorted, read directly from the database.
    pub fn stored(&self) -> Vec<(String, String)> {
        let db = self.database();
        let mut query = db.prepare("select id, name from task order by id").expect("the schema is known");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("tasks can be read");
        rows.map(|row| row.expect("a row can be read")).collect()
    }

    /// Waits until the task is in this state.
    #[track_caller]
    pub fn wait_state(&self, id: &str, state: &str) {
        let mut last = Vec::new();
        let there = within(DEADLINE, || {
            last = self.stored();
            last.iter().any(|(task, name)| task == id && name == state).then_some(())
        });
        assert!(there.is_some(), "{id} never became {state}: {last:?}\n{}", self.log());
    }

    /// Waits until no task is left that a daemon could move.
    #[track_caller]
    pub fn wait_settled(&self, patience: Duration) {
        let moving = ["pending", "claimed", "running", "judging", "landing", "parked"];
        let mut last = Vec::new();
        let there = within(patience, || {
            last = self.stored();
            (!last.iter().any(|(_, name)| moving.contains(&name.as_str()))).then_some(())
        });
        assert!(there.is_some(), "not settled: {last:?}\n{}", self.log());
    }

    /// The last events, for the message of a failing test.
    pub fn log(&self) -> String {
        let db = self.database();
        let sql = "select e.seq, coalesce(t.id, ''), e.body from event e left join task t on t.seq = e.task
                   order by e.seq desc limit 60";
        let mut query = db.prepare(sql).expect("the schema is known");
        let rows = query.query_map([], |row| {
            let (seq, task, body): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!("{seq} {task} {body}\n"))
        });
        let mut lines: Vec<String> = rows.expect("events can be read").flatten().collect();
        lines.reverse();
        lines.concat()
    }

    /// How many events of this kind a task has.
    pub fn events_of(&self, id: &str, kind: &str) -> usize {
        let db = self.database();
        let sql = "select count(*) from event e join task t on t.seq = e.task
                   where t.id = ?1 and e.body ->> 'kind' = ?2";
        db.query_row(sql, [id, kind], |row| row.get::<_, i64>(0)).expect("events can be read") as usize
    }

    /// The record of an attempt.
    pub fn attempt(&self, id: &str, n: u32) -> Value {
        let db = self.database();
        let sql = "select a.body from attempt a join task t on t.seq = a.task where t.id = ?1 and a.n = ?2";
        let body: String =
            db.query_row(sql, rusqlite::params![id, n], |row| row.get(0)).expect("there is such an attempt");
        serde_json::from_str(&body).expect("attempts are JSON")
    }

    /// How many attempts a task has had, and how many of them were charged.
    pub fn attempts(&self, id: &str) -> (u32, u32) {
        let db = self.database();
        let sql = "select attempts, charged from task where id = ?1";
        db.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?))).expect("there is such a task")
    }

    /// A record that an attempt's shim wrote.
    pub fn run_record(&self, id: &str, attempt: u32, name: &str) -> Option<Value> {
        let path = self.state_dir().join(format!("runs/{id}/{attempt}/{name}"));
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// The process id of an attempt's agent.
    #[track_caller]
    pub fn agent_pid(&self, id: &str, attempt: u32) -> u32 {
        let record = until("the shim has told of its agent", || self.run_record(id, attempt, "shim.json"));
        record["agent"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("an agent has a pid")
    }

    /// Processes that run in the task's lane and whose parent does not; for a confined one, the process that confines
    /// it, which is the agent on record.
    pub fn trees_in_lane(&self, id: &str) -> Vec<u32> {
        let lane = self.lanes().join(id);
        let mut inside = Vec::new();
        for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&lane)) {
                inside.push(pid);
            }
        }
        let is_inside = |pid: Option<u32>| pid.is_some_and(|pid| inside.contains(&pid));
        let roots = inside.iter().copied().filter(|pid| !is_inside(parent(*pid)));
        let mut roots: Vec<u32> = roots.map(without_confinement).collect();
        roots.dedup();
        roots
    }
}

/// The outermost of the processes that confine this one; itself if there is none.
fn without_confinement(mut pid: u32) -> u32 {
    let confines = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"confine")
    };
    while let Some(above) = parent(pid).filter(|above| confines(*above)) {
        pid = above;
    }
    pid
}

/// True while the process can still do something.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

/// Processor time of a process so far, in clock ticks.
pub fn ticks(pid: u32) -> u64 {
    let fields = stat(pid).expect("the process is there");
    fields[11].parse::<u64>().unwrap_or(0) + fields[12].parse::<u64>().unwrap_or(0)
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?[1].parse().ok()
}

/// The fields of `/proc/<pid>/stat` from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Sends a signal: `KILL`, `STOP`, …; a process that is gone is fine.
pub fn signal(pid: u32, signal: &str) {
    let mut kill = std::process::Command::new("kill");
    let _ = kill.args([&format!("-{signal}"), &pid.to_string()]).stderr(std::process::Stdio::null()).status();
}
