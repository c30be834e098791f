//! The GitHub-shaped server by itself, to try pull requests by hand:
//! `cargo run -p regatta-testkit --example forge_server -- acme/shop`.
//!
//! It prints the variables that lead `gh` and git to it, and the address of each repository. Then it reads lines from
//! standard input, and ends with it:
//!
//! ```text
//! approve OWNER/NAME NUMBER          changes OWNER/NAME NUMBER TEXT     comment OWNER/NAME NUMBER TEXT
//! merge OWNER/NAME NUMBER            close OWNER/NAME NUMBER            rename OWNER/NAME NEW
//! push OWNER/NAME BRANCH FILE TEXT   checks pass | wait | never         calls
//! ```

use std::io::{BufRead as _, Write as _};

use regatta_testkit::forge::{Ci, Forge, Permission, Verdict};

/// The login of the person who reviews.
const REVIEWER: &str = "ada";

fn main() {
    let forge = Forge::start();
    forge.ci(Ci::Passes("ci".to_owned()));
    forge.user(REVIEWER);
    for (name, value) in forge.world_env() {
        say(&format!("export {name}='{}'", value.to_string_lossy()));
    }
    for name in std::env::args().skip(1) {
        forge.repo(&name).member(&name, "octo", Permission::Write).member(&name, REVIEWER, Permission::Write);
        say(&format!("# {}", forge.remote(&name)));
    }
    say("# ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if obey(&forge, &line).is_none() {
            say(&format!("cannot do {line:?}"));
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `None` if the line is not one of the known ones.
fn obey(forge: &Forge, line: &str) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["checks", "pass"] => _ = forge.ci(Ci::Passes("ci".to_owned())),
        ["checks", "wait"] => _ = forge.ci(Ci::Waits("ci".to_owned())),
        ["checks", "never"] => _ = forge.ci(Ci::Never),
        ["calls"] => forge.call_lines().iter().for_each(|line| say(line)),
        ["rename", repo, new] => forge.as_user(REVIEWER).in_repo(repo).rename_repo(new),
        ["push", repo, branch, file, text @ ..] => {
            _ = forge.as_user(REVIEWER).in_repo(repo).push(branch, &[(file, &text.join(" "))]);
        }
        [what, repo, number, text @ ..] => {
            let (person, number) = (forge.as_user(REVIEWER).in_repo(repo), number.parse().ok()?);
            match *what {
                "approve" => _ = person.approve(number),
                "changes" => _ = person.review(number, Verdict::ChangesRequested, &text.join(" "), &[]),
                "comment" => _ = person.comment(number, &text.join(" ")),
                "merge" => _ = person.merge(number),
                "close" => person.close(number),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(())
}
