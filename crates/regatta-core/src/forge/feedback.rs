//! What people, checks and the forge say about a pull request, as one prompt for its agent.
//!
//! Invariants: what was sent is never sent again, because every part has a key that the store records with the prompt;
//! text of others is stripped and fenced; words of people below `github.trust` reach no agent.

mod prompt;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::time::Timestamp;

use super::marker;
use super::pull::{Comment, Policy, PullFacts, Review, ReviewState, Thread};
use super::slug::NodeId;

pub use prompt::{CheckOutput, ci_prompt, conflict_prompt, queue_prompt, review_prompt};

/// Longest wait for quiet, in multiples of it: a person who keeps on writing does not hold everything back.
const LONGEST_TALK: u32 = 10;

/// Whether there is something for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// There is nothing new.
    Nothing,
    /// There are new comments, and more may come: look at them again then.
    At(Timestamp),
    /// This goes out now, in one prompt.
    Now(Gathered),
}

/// What one prompt tells the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Reviews with their threads.
    pub reviews: Vec<(Review, Vec<Thread>)>,
    /// Threads without a review that is sent here.
    pub threads: Vec<Thread>,
    /// Comments on the pull request itself.
    pub comments: Vec<Comment>,
    /// How many comments of people who are not trusted were left out.
    pub left_out: usize,
    /// Ids of everything in it, to be recorded with the prompt.
    pub keys: Vec<String>,
}

impl Gathered {
    /// The logins whose words are in it, each once.
    pub fn authors(&self) -> Vec<&str> {
        let reviews = self.reviews.iter().map(|(review, _)| &review.author);
        let threads = self.reviews.iter().flat_map(|(_, threads)| threads).chain(&self.threads);
        let comments = threads.flat_map(|thread| &thread.comments).chain(&self.comments);
        let mut logins = Vec::new();
        for author in reviews.chain(comments.map(|comment| &comment.author)) {
            if !logins.contains(&author.login.as_str()) {
                logins.push(author.login.as_str());
            }
        }
        logins
    }
}

/// What of a pull request's conversation goes to its agent now. `own` are ids of Regatta's comments, `heard` the keys of
/// what was sent before, `quiet` how long loose comments are collected.
pub fn due(
    facts: &PullFacts,
    policy: &Policy,
    own: &BTreeSet<NodeId>,
    heard: &BTreeSet<String>,
    quiet: Duration,
    now: Timestamp,
) -> Due {
    let desk = Desk { policy, own, heard };
    let (gathered, times) = desk.gather(facts);
    if gathered.keys.is_empty() {
        return Due::Nothing;
    }
    let Some((oldest, newest)) = times.loose else { return Due::Now(gathered) };
    let from = newest.plus(quiet).min(oldest.plus(quiet.saturating_mul(LONGEST_TALK)));
    if times.submitted || now >= from { Due::Now(gathered) } else { Due::At(from) }
}

/// When the parts of a batch were written.
#[derive(Default)]
struct Times {
    /// Whether a submitted review is in it, which does not wait.
    submitted: bool,
    /// The oldest and the newest loose comment.
    loose: Option<(Timestamp, Timestamp)>,
}

impl Times {
    fn loose(&mut self, at: Timestamp) {
        let (oldest, newest) = self.loose.unwrap_or((at, at));
        self.loose = Some((oldest.min(at), newest.max(at)));
    }
}

/// Who counts, and what is new.
struct Desk<'a> {
    policy: &'a Policy,
    own: &'a BTreeSet<NodeId>,
    heard: &'a BTreeSet<String>,
}

impl Desk<'_> {
    fn gather(&self, facts: &PullFacts) -> (Gathered, Times) {
        let mut gathered = Gathered::default();
        let mut times = Times::default();
        let mut threads: Vec<Thread> = if self.policy.feedback.reviews {
            facts.threads.iter().filter_map(|thread| self.thread(thread, &mut gathered)).collect()
        } else {
            Vec::new()
        };
        for review in facts.reviews.iter().filter(|_| self.policy.feedback.reviews) {
            if !self.counts_review(review) {
                continue;
            }
            let of_review = |thread: &Thread| {
                thread
                    .comments
                    .iter()
                    .any(|comment| comment.review.as_ref() == Some(&review.id) && self.is_new(&comment.id))
            };
            let (with, without): (Vec<_>, Vec<_>) = threads.into_iter().partition(of_review);
            threads = without;
            let speaks = !review.body.trim().is_empty() || review.state == ReviewState::ChangesRequested;
            if !speaks {
                // A single comment is a review without words of its own.
                gathered.threads.extend(with);
                continue;
            }
            times.submitted = true;
            gathered.keys.push(review.id.to_string());
            gathered.reviews.push((review.clone(), with));
        }
        gathered.threads.extend(threads);
        let all = gathered.reviews.iter().flat_map(|(_, threads)| threads).chain(&gathered.threads);
        let new: Vec<&Comment> =
            all.flat_map(|thread| &thread.comments).filter(|comment| self.is_new(&comment.id)).collect();
        let keys: Vec<String> = new.iter().map(|comment| comment.id.to_string()).collect();
        for thread in &gathered.threads {
            for comment in thread.comments.iter().filter(|comment| self.is_new(&comment.id)) {
                times.loose(comment.at);
            }
        }
        gathered.keys.extend(keys);
        for comment in facts.comments.iter().filter(|_| self.policy.feedback.comments) {
            if !self.is_new(&comment.id) || !self.is_talk(comment) {
                continue;
            }
            if !self.policy.trusts(&comment.author) {
                gathered.left_out += 1;
                continue;
            }
            times.loose(comment.at);
            gathered.keys.push(comment.id.to_string());
            gathered.comments.push(comment.clone());
        }
        (gathered, times)
    }

    fn is_new(&self, id: &NodeId) -> bool {
        !self.heard.contains(id.as_str())
    }

    fn counts_review(&self, review: &Review) -> bool {
        self.is_new(&review.id)
            && !review.minimized
            && !matches!(review.state, ReviewState::Dismissed | ReviewState::Pending)
            && !self.own.contains(&review.id)
            && !marker::is_marked(&review.body)
            && self.policy.trusts(&review.author)
    }

    /// A comment that a person wrote for people or for the agent.
    fn is_talk(&self, comment: &Comment) -> bool {
        !comment.minimized
            && !self.own.contains(&comment.id)
            && !marker::is_marked(&comment.body)
            && !comment.body.trim().is_empty()
            && !only_commands(&comment.body)
    }

    /// The thread with the comments that count, if one of them is new.
    fn thread(&self, thread: &Thread, gathered: &mut Gathered) -> Option<Thread> {
        if thread.resolved {
            return None;
        }
        let mut kept = thread.clone();
        kept.comments.retain(|comment| {
            let trusted = self.policy.trusts(&comment.author);
            if !trusted && self.is_new(&comment.id) && self.is_talk(comment) {
                gathered.left_out += 1;
            }
            trusted && self.is_talk(comment)
        });
        kept.comments.iter().any(|comment| self.is_new(&comment.id)).then_some(kept)
    }
}

/// Whether a comment has nothing but commands to bots: `@name word` or `/word`, each on a line of its own.
pub fn only_commands(body: &str) -> bool {
    let is_command = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = |word: &str, sign: char| {
            word.strip_prefix(sign).is_some_and(|name| {
                name.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_[]/".contains(c))
            })
        };
        match words.as_slice() {
            [first, _] => name(first, '@') || name(first, '/'),
            [first] => name(first, '/') && !first[1..].contains('/'),
            _ => false,
        }
    };
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(is_command)
}
