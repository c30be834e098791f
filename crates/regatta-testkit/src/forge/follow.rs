//! What follows from pushes: heads move, pull requests close, merge or get a new base, checks begin.

use std::collections::BTreeMap;

use super::bare::{Bare, NOTHING};
use super::checks::{Check, Conclusion, Progress};
use super::state::{Ci, Happened, Issue, Method, Moment, Pull, State, Verdict};

/// The commits of a repository's branches.
type Tips = BTreeMap<String, String>;

impl State {
    /// Compares every open pull request with the repositories.
    pub(super) fn follow(&mut self, by: &str) {
        let moment = self.moment();
        let tips: Vec<Tips> = self.repos.iter().map(|repo| repo.bare().tips()).collect();
        for at in 0..self.repos.len() {
            let open = |issue: &&Issue| issue.is_open && issue.pull.is_some();
            let numbers: Vec<u64> =
                self.repos[at].issues.values().filter(open).map(|issue| issue.number).collect();
            for number in numbers {
                let Some((_, pull)) = self.repos[at].pull(number) else { continue };
                let head_tips = self.by_id(pull.head_repo).map(|head_at| &tips[head_at]);
                let head = head_tips.and_then(|tips| tips.get(&pull.head));
                let base = tips[at].get(&pull.base);
                if (base, head) == (Some(&pull.base_sha), Some(&pull.head_sha)) {
                    continue;
                }
                self.follow_base(at, number, moment, by, &tips[at]);
                self.follow_head(at, number, moment, by, head);
                self.follow_merge(at, number, moment, by);
            }
        }
    }

    /// A base that moved or was deleted. In the place of a deleted one comes the base of the pull request that brought
    /// it home.
    fn follow_base(&mut self, at: usize, number: u64, moment: Moment, by: &str, tips: &Tips) {
        let repo = &self.repos[at];
        let Some((_, pull)) = repo.pull(number) else { return };
        let from = pull.base.clone();
        if let Some(tip) = tips.get(&from) {
            // Kept until the merge is recorded: a pull request remembers what its base was before.
            if !repo.bare().contains(tip, &pull.head_sha) {
                let issue = self.repos[at].issues.get_mut(&number).expect("it was found");
                let pull = issue.pull_mut();
                if pull.base_sha != *tip {
                    pull.base_sha.clone_from(tip);
                    pull.looks = 0;
                }
            }
            return;
        }
        let home = repo.pulls().find(|(_, other)| other.merged.is_some() && other.head == from);
        match home.map(|(_, other)| other.base.clone()) {
            Some(to) => self.retarget(at, number, moment, by, &to),
            None => self.close(at, number, moment, by, None),
        }
    }

    /// Gives a pull request another base.
    pub(super) fn retarget(&mut self, at: usize, number: u64, moment: Moment, by: &str, to: &str) {
        let tip = self.repos[at].bare().tip(to);
        let Some(issue) = self.repos[at].issues.get_mut(&number) else { return };
        let pull = issue.pull_mut();
        let from = std::mem::replace(&mut pull.base, to.to_owned());
        if let Some(tip) = tip {
            pull.base_sha = tip;
        }
        pull.looks = 0;
        self.note(at, number, moment, by, Happened::BaseChanged { from, to: to.to_owned() });
    }

    /// A head that moved or was deleted.
    fn follow_head(&mut self, at: usize, number: u64, moment: Moment, by: &str, tip: Option<&String>) {
        let Some((issue, pull)) = self.repos[at].pull(number) else { return };
        if !issue.is_open {
            return;
        }
        let (from, base) = (pull.head_sha.clone(), pull.base.clone());
        let Some(to) = tip.cloned() else {
            self.note(at, number, moment, by, Happened::HeadDeleted);
            self.close(at, number, moment, by, None);
            return;
        };
        if to == from {
            return;
        }
        self.bring(at, number, &to);
        let repo = &self.repos[at];
        let was_forced = !repo.bare().contains(&to, &from);
        let voids = repo.rules_of(&base).dismiss_stale;
        let Some(issue) = self.repos[at].issues.get_mut(&number) else { return };
        issue.updated = moment;
        let pull = issue.pull_mut();
        pull.head_sha.clone_from(&to);
        pull.looks = 0;
        pull.queue = None;
        if voids {
            let approvals = pull.reviews.iter_mut().filter(|review| review.verdict == Verdict::Approved);
            approvals.for_each(|review| review.verdict = Verdict::Dismissed);
        }
        if was_forced {
            self.note(at, number, moment, by, Happened::HeadForcePushed { from, to });
        }
        self.begin_checks(at, number);
    }

    /// A head that is part of its base is merged.
    fn follow_merge(&mut self, at: usize, number: u64, moment: Moment, by: &str) {
        let repo = &self.repos[at];
        let Some((issue, pull)) = repo.pull(number) else { return };
        let bare = repo.bare();
        let Some(base_sha) = bare.tip(&pull.base).filter(|_| issue.is_open) else { return };
        if !bare.contains(&base_sha, &pull.head_sha) {
            return;
        }
        let sha = merge_commit(bare, &base_sha, pull);
        let before = pull.base_sha.clone();
        self.merged(at, number, moment, by, None, &sha, &before);
    }

    /// Has the head's objects in the base repository, under the name that GitHub gives them.
    pub(super) fn bring(&self, at: usize, number: u64, sha: &str) {
        let repo = &self.repos[at];
        let name = format!("refs/pull/{number}/head");
        let source = repo.pull(number).and_then(|(_, pull)| self.by_id(pull.head_repo));
        if let Some(source) = source.filter(|source| *source != at) {
            let dir = self.repos[source].dir.display().to_string();
            repo.bare().git(["fetch", "--quiet", "--no-tags", &dir, &format!("+{sha}:{name}")]);
        } else {
            repo.bare().git(["update-ref", &name, sha]);
        }
    }

    /// What continuous integration does by itself with a new head.
    pub(super) fn begin_checks(&mut self, at: usize, number: u64) {
        let sha = match self.repos[at].pull(number) {
            Some((_, pull)) => pull.head_sha.clone(),
            None => return,
        };
        match self.ci.clone() {
            Ci::Never => {}
            Ci::Passes(name) => drop(self.check(at, &sha, &name, Some(Conclusion::Success))),
            Ci::Waits(name) => drop(self.check(at, &sha, &name, None)),
        }
    }

    /// Records a check run; returns its number.
    pub(super) fn check(&mut self, at: usize, sha: &str, name: &str, conclusion: Option<Conclusion>) -> u64 {
        let (id, run, moment) = (self.serial(), self.serial(), self.moment());
        let check = Check {
            id,
            run,
            name: name.to_owned(),
            conclusion,
            progress: Progress::default(),
            annotations: Vec::new(),
            app: "github-actions".to_owned(),
            title: None,
            summary: None,
            log: String::new(),
            at: moment,
        };
        self.repos[at].checks.entry(sha.to_owned()).or_default().push(check);
        id
    }

    /// Merges what stands in the queue of a base, first in, first out, as far as it is ready.
    pub(super) fn run_queue(&mut self, at: usize, base: &str) {
        let repo = &self.repos[at];
        let mut entries: Vec<(u64, u64, String)> = repo
            .pulls()
            .filter(|(_, pull)| pull.base == base)
            .filter_map(|(issue, pull)| {
                let queue = pull.queue.as_ref()?;
                Some((queue.id, issue.number, queue.by.clone()))
            })
            .collect();
        entries.sort();
        for (_, number, by) in entries {
            let repo = &self.repos[at];
            let Some((issue, pull)) = repo.pull(number) else { continue };
            let stays = repo.unready(pull).is_some();
            if stays {
                return;
            }
            let method = repo.methods.iter().next().copied().unwrap_or(Method::Merge);
            let message = format!("{} (#{number})", issue.title);
            if let Err(refused) = self.join(at, number, &by, method, &message) {
                self.leave_queue(at, number, &refused.1);
            }
        }
    }

    /// Takes a pull request out of the queue without a merge.
    pub(super) fn leave_queue(&mut self, at: usize, number: u64, why: &str) {
        let moment = self.moment();
        if let Some(issue) = self.repos[at].issues.get_mut(&number) {
            issue.pull_mut().queue = None;
        }
        self.note(at, number, moment, "github-merge-queue[bot]", Happened::RemovedFromQueue(why.to_owned()));
    }

    /// Deletes a branch, whatever it points at.
    pub(super) fn delete_branch(&mut self, at: usize, branch: &str, by: &str) -> bool {
        let bare = self.repos[at].bare();
        let Some(tip) = bare.tip(branch) else { return false };
        let is_gone = bare.update(&format!("refs/heads/{branch}"), NOTHING, &tip);
        self.follow(by);
        is_gone
    }
}

/// The commit that brought the head into the base: the oldest one on the base's own line that has it.
fn merge_commit(bare: Bare, base: &str, pull: &Pull) -> String {
    let line = bare.ask(["rev-list", "--first-parent", "--reverse", base]).unwrap_or_default();
    let first = line.lines().find(|commit| bare.contains(commit, &pull.head_sha));
    first.unwrap_or(&pull.head_sha).to_owned()
}
