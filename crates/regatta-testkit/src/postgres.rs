//! A real PostgreSQL server in a directory of its own.
//!
//! A shell starts it and reads from a pipe that this process holds: a line means that the server was killed and has to
//! be started again; the end of the pipe, which comes with the end of this process however it ends, stops the server
//! and removes the directory.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

/// The server refuses to run as root, so it runs as this user then: `nobody`.
const NOBODY: u32 = 65534;

const RUN: &str = r#"
while :; do
    "$1" -D "$2/data" -k "$2" -c max_connections=200 2>&1 &
    server=$!
    echo "PID $server"
    read -r again || break
    # A line of a client's connection may look like one of a server that did not start: then it is alive.
    kill -9 "$server" 2>/dev/null
    wait "$server"
done
kill -INT "$server"
wait "$server"
rm -rf "$2"
"#;

/// A running server.
pub struct Server {
    directory: PathBuf,
    shell: Mutex<ChildStdin>,
    said: Mutex<mpsc::Receiver<String>>,
    pid: Mutex<String>,
}

impl Server {
    /// The server of this test program.
    pub fn shared() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Server::start)
    }

    /// Another one, for a test that kills it.
    pub fn start() -> Self {
        Self::start_with(&[("postgresql.conf", "listen_addresses = ''\n")])
    }

    /// Another one, with these files beside its data.
    pub fn start_with(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("regatta-pg-").tempdir().unwrap().keep();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let as_user = |program: PathBuf| {
            let mut command = Command::new(program);
            // In a group of its own: the shell has to outlive a signal from the terminal.
            command.current_dir(&directory).stdin(Stdio::null()).process_group(0);
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let initialized = as_user(binary("initdb"))
            .args(["-A", "trust", "-U", "regatta", "--no-locale", "-E", "UTF8", "--no-sync", "-D"])
            .arg(directory.join("data"))
            .output()
            .unwrap();
        assert!(initialized.status.success(), "{}", String::from_utf8_lossy(&initialized.stderr));
        for (name, content) in files {
            let path = directory.join("data").join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if is_root {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut shell = as_user("sh".into())
            .args(["-c", RUN, "sh"])
            .arg(binary("postgres"))
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, (lines, said)) = (shell.stdin.take().unwrap(), mpsc::channel());
        let stdout = BufReader::new(shell.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if line.starts_with("PID ") || line.contains("ready to accept") || line.contains("FATAL") {
                    // A test that no longer waits needs no answer.
                    let _gone = lines.send(line);
                }
            }
            let _reaped = shell.wait();
        });
        let server =
            Self { directory, shell: Mutex::new(stdin), said: Mutex::new(said), pid: Mutex::default() };
        assert!(server.is_up(), "PostgreSQL did not start in {}", server.directory.display());
        server
    }

    /// Waits until it accepts connections. False if it could not start.
    fn is_up(&self) -> bool {
        let said = self.said.lock().unwrap();
        loop {
            let line = said.recv_timeout(Duration::from_secs(60)).expect("PostgreSQL says nothing");
            match line.strip_prefix("PID ") {
                Some(pid) => *self.pid.lock().unwrap() = pid.to_owned(),
                None if line.contains("ready to accept") => return true,
                // Connections that come too early are refused with the same word.
                None if line.contains("the database system is")
                    || line.contains("terminating connection") => {}
                None => return false,
            }
        }
    }

    /// Kills the server without a chance to write anything, and starts it again.
    pub fn kill_and_restart(&self) {
        let pid = self.pid.lock().unwrap().clone();
        let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
        // The killed server's processes need a moment to end; until then a new one refuses to start.
        for _ in 0..20 {
            self.shell.lock().unwrap().write_all(b"again\n").unwrap();
            if self.is_up() {
                return;
            }
        }
        panic!("PostgreSQL did not start again in {}", self.directory.display());
    }

    /// The address of a project's store.
    pub fn url(&self, project: &str) -> String {
        let socket = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres://regatta@{socket}/postgres?project={project}")
    }

    /// Runs SQL as the superuser, as an administrator would, and returns what it prints.
    pub fn execute(&self, sql: &str) -> String {
        let mut psql = Command::new(binary("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "regatta", "-d", "postgres", "-h"]);
        let mut running = psql
            .arg(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        running.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The socket on which it listens, for a [`Wire`](crate::wire::Wire) in front of it.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(".s.PGSQL.5432")
    }

    /// The address for other clients.
    pub fn plain_url(&self) -> String {
        self.url("x").replace("?project=x", "")
    }
}

/// A program of PostgreSQL, on the path or where Debian puts it.
fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|found| found.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    places.extend(versions.into_iter().rev());
    let found = places.iter().map(|place| place.join(name)).find(|program| Path::exists(program));
    found.unwrap_or_else(|| panic!("no {name}: install PostgreSQL (Debian: postgresql)"))
}
