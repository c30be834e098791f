//! git over HTTP: `git http-backend` as a CGI program, and the log of pushes.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::bare::{NOTHING, isolated};
use super::state::State;
use crate::http::{Received, Reply};

/// One update of a ref that a push asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// `owner/name`.
    pub repo: String,
    /// The login.
    pub by: String,
    /// `refs/heads/main`.
    pub reference: String,
    /// The commit before; none if the ref was made.
    pub old: Option<String>,
    /// The commit after; none if the ref was deleted.
    pub new: Option<String>,
    /// The old commit is not part of the new one.
    pub forced: bool,
    /// It was done.
    pub accepted: bool,
}

/// The repository and the service of a request's path: `/acme/shop.git/info/refs`.
pub(super) fn split(path: &str) -> Option<(String, &str)> {
    let (repo, service) = path.trim_start_matches('/').split_once(".git/").or_else(|| {
        let at = path.trim_start_matches('/').match_indices('/').nth(1)?.0;
        let path = path.trim_start_matches('/');
        Some((&path[..at], &path[at + 1..]))
    })?;
    let is_known = matches!(service, "info/refs" | "git-upload-pack" | "git-receive-pack" | "HEAD");
    (is_known && repo.matches('/').count() == 1).then(|| (repo.to_owned(), service))
}

/// Runs the program. `dir` is the bare repository.
pub(super) fn run(received: &Received, dir: &std::path::Path, service: &str, user: Option<&str>) -> Reply {
    let query = received.target.split_once('?').map_or("", |(_, query)| query);
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env_clear()
        .envs(isolated())
        .env("GIT_PROJECT_ROOT", dir)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{service}"))
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &received.method)
        .env("CONTENT_TYPE", received.header("content-type"))
        .env("CONTENT_LENGTH", received.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", received.header("content-encoding"))
        .env("GIT_PROTOCOL", received.header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(user) = user {
        command.env("REMOTE_USER", user);
    }
    let mut child = command.spawn().expect("git http-backend can be started");
    let mut stdin = child.stdin.take().expect("it was asked for");
    let body = received.body.clone();
    // The program may answer before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let output = child.wait_with_output().expect("git http-backend ends");
    let _ = writer.join();
    cgi(&output.stdout)
}

/// Turns what a CGI program prints into an answer.
fn cgi(output: &[u8]) -> Reply {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let body = output.get(end + 4..).unwrap_or_default();
    let mut reply = Reply::of(200, "text/plain", body);
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "status" => {
                reply.status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
            }
            name => reply = reply.header(name, value),
        }
    }
    reply
}

/// The updates that the body of a push asks for: old, new, ref.
pub(super) fn wanted(body: &[u8]) -> Vec<[String; 3]> {
    let mut rest = body;
    let mut found = Vec::new();
    while let Some(length) = rest.get(..4).and_then(|hex| std::str::from_utf8(hex).ok()) {
        let Ok(length) = usize::from_str_radix(length, 16) else { break };
        let Some(line) = rest.get(4..length).filter(|_| length > 4) else { break };
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        if let [old, new, name] = words[..] {
            found.push([old, new, name].map(str::to_owned));
        }
        rest = &rest[length..];
    }
    found
}

impl State {
    /// Records a push and what follows from it.
    pub(super) fn pushed(&mut self, at: usize, by: &str, wanted: Vec<[String; 3]>) -> Vec<Pushed> {
        let repo = &self.repos[at];
        let (bare, name) = (repo.bare(), repo.full_name());
        let accepted = bare.accepted();
        let some = |sha: &String| (sha != NOTHING).then(|| sha.clone());
        let pushed = wanted.into_iter().map(|update| {
            let is_accepted = accepted.contains(&update);
            let [old, new, reference] = update;
            let (old, new) = (some(&old), some(&new));
            let both = old.as_ref().zip(new.as_ref());
            let forced = both.is_some_and(|(old, new)| !bare.contains(new, old));
            Pushed {
                repo: name.clone(),
                by: by.to_owned(),
                reference,
                old,
                new,
                forced,
                accepted: is_accepted,
            }
        });
        let pushed = pushed.collect();
        self.follow(by);
        pushed
    }
}
