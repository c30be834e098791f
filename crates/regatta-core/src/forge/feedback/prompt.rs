//! The text of the prompts.

use crate::plain::clean_line;
use crate::time::counted;

use super::Gathered;
use crate::forge::fence::Fence;
use crate::forge::pull::{Author, Check, CheckState, PullFacts, ReviewState, Thread};
use crate::forge::slug::Slug;
use crate::forge::strip::{self, before};

/// Most lines of a diff that are shown around a comment.
const HUNK: usize = 12;
/// Most output of all failed checks together.
const OUTPUT: usize = 24 * 1024;
/// Most lines of one failed check.
const LINES: usize = 200;

/// A failed check, and what it printed, masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOutput {
    /// The check.
    pub check: Check,
    /// The end of its log; without one, what it says about itself.
    pub text: String,
}

/// The prompt about reviews and comments.
pub fn review_prompt(repo: &Slug, facts: &PullFacts, gathered: &Gathered, fence: &Fence) -> String {
    let place = format!("{repo}{}", facts.number);
    let mut parts = vec![format!(
        "Your work is in the pull request {place}, and there is feedback on it.\n\
         Change the code where the feedback is right, and commit nothing else. Where you disagree, leave the code as it \
         is and say why in your summary."
    )];
    for (review, threads) in &gathered.reviews {
        let verdict = match review.state {
            ReviewState::ChangesRequested => "asks for changes",
            ReviewState::Approved => "approves",
            _ => "comments",
        };
        parts.push(format!("## Review by {}: {verdict}", who(&review.author)));
        if review.body.trim().is_empty() && threads.is_empty() {
            parts.push("The review has no text.".to_owned());
        }
        if !review.body.trim().is_empty() {
            let what = format!("a review of {place} by {}", who(&review.author));
            parts.push(fenced(fence, &what, &review.body));
        }
        parts.extend(threads.iter().map(|one| thread(fence, &place, one)));
    }
    if !gathered.threads.is_empty() {
        parts.push("## Comments on lines".to_owned());
        parts.extend(gathered.threads.iter().map(|one| thread(fence, &place, one)));
    }
    if !gathered.comments.is_empty() {
        parts.push("## Comments".to_owned());
        for comment in &gathered.comments {
            let what = format!("a comment on {place} by {}", who(&comment.author));
            parts.push(fenced(fence, &what, &comment.body));
        }
    }
    if gathered.left_out > 0 {
        let comments = counted(gathered.left_out, "comment");
        parts.push(format!("Left out: {comments} by people without write access."));
    }
    parts.join("\n\n") + "\n"
}

fn thread(fence: &Fence, place: &str, thread: &Thread) -> String {
    let line = thread.line.map_or_else(String::new, |line| format!(", line {line}"));
    let old = if thread.outdated { ", which has changed since" } else { "" };
    let mut text = String::new();
    let hunk: Vec<&str> = thread.hunk.lines().collect();
    for line in &hunk[hunk.len().saturating_sub(HUNK)..] {
        text.push_str(&format!("| {line}\n"));
    }
    for comment in &thread.comments {
        text.push_str(&format!("{}: {}\n", who(&comment.author), comment.body.trim()));
    }
    let what = format!("comments on {place}, {}{line}{old}", thread.path);
    fenced(fence, &what, &text)
}

/// The prompt about failed checks. The first lines of a log are cut, because the reason is at the end.
pub fn ci_prompt(repo: &Slug, facts: &PullFacts, failed: &[CheckOutput], fence: &Fence) -> String {
    let checks = counted(failed.len(), "check");
    let mut parts = vec![format!(
        "{checks} failed on your work in the pull request {repo}{} (commit {}). Find the reason and repair it. If your \
         work is not at fault, change nothing and say so in your summary.",
        facts.number,
        facts.head.commit.short(),
    )];
    let room = OUTPUT / failed.len().max(1);
    for output in failed {
        let name = clean_line(&output.check.name);
        let end = match output.check.state {
            CheckState::TimedOut => "timed out",
            _ => "failed",
        };
        parts.push(format!("## {name} {end}"));
        let text = strip::strip(&output.text, usize::MAX / 8).text;
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        let from = last.ceil_char_boundary(last.len().saturating_sub(room));
        let last = &last[from..];
        if last.trim().is_empty() {
            parts.push("It printed nothing that can be read.".to_owned());
        } else {
            parts.push(fence.around(&format!("the output of {name}"), last).trim_end().to_owned());
        }
    }
    parts.join("\n\n") + "\n"
}

/// The prompt about a conflict. The lane has the merge with its conflict markers.
pub fn conflict_prompt(repo: &Slug, facts: &PullFacts, files: &[String]) -> String {
    let mut text = format!(
        "Your work in the pull request {repo}{} conflicts with {}. The merge of both is in this worktree, with conflict \
         markers. Resolve them so that both changes keep their purpose, remove every marker, and commit the merge. Do \
         not rebase and do not push.\n",
        facts.number,
        clean_line(&facts.base),
    );
    if !files.is_empty() {
        text.push_str("\nFiles with conflicts:\n");
        for file in files.iter().take(100) {
            text.push_str(&format!("- {}\n", clean_line(file)));
        }
        if files.len() > 100 {
            text.push_str(&format!("- and {} more\n", files.len() - 100));
        }
    }
    text
}

/// The prompt about a merge queue that refused the work.
pub fn queue_prompt(repo: &Slug, facts: &PullFacts, reason: &str, fence: &Fence) -> String {
    let what = format!("the merge queue of {repo} about {}", facts.number);
    format!(
        "The merge queue did not take your work in the pull request {repo}{}. Find the reason and repair it. If your \
         work is not at fault, change nothing and say so in your summary.\n\n{}",
        facts.number,
        fence.around(&what, &strip::strip(reason, strip::LONGEST).text)
    )
}

fn fenced(fence: &Fence, what: &str, text: &str) -> String {
    let stripped = strip::strip(text, strip::LONGEST);
    let mut text = fence.around(what, &stripped.text).trim_end().to_owned();
    if !stripped.removed.is_nothing() {
        text.push_str(&format!("\n(removed from it: {})", stripped.removed.summary()));
    }
    text
}

/// A login with what it may do. The login is shown without a sign that notifies.
fn who(author: &Author) -> String {
    let login = if author.login.is_empty() { "a deleted account" } else { author.login.as_str() };
    let login = clean_line(before(login, 100));
    match (author.bot, author.permission) {
        (true, _) => format!("{login} (app)"),
        (false, Some(permission)) => format!("{login} ({})", permission.as_str()),
        (false, None) => login,
    }
}
