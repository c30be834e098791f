//! What other people do, besides the program under test.

use super::backend::Pushed;
use super::bare::NOTHING;
use super::merging::Wish;
use super::proposing::Proposal;
use super::scene::Forge;
use super::state::{Comment, Happened, Method, Review, State, Thread, Verdict};

/// A remark beside a line, as part of a review.
#[derive(Clone, Debug)]
pub struct Inline {
    /// The file.
    pub path: String,
    /// The line.
    pub line: u64,
    /// The words.
    pub body: String,
}

impl Inline {
    /// A remark.
    pub fn new(path: &str, line: u64, body: &str) -> Self {
        Self { path: path.to_owned(), line, body: body.to_owned() }
    }
}

/// A person in a repository.
#[derive(Debug)]
pub struct Person<'a> {
    forge: &'a Forge,
    login: String,
    repo: String,
}

impl<'a> Person<'a> {
    pub(super) fn new(forge: &'a Forge, login: &str, repo: &str) -> Self {
        Self { forge, login: login.to_owned(), repo: repo.to_owned() }
    }

    /// The same person in another repository.
    pub fn in_repo(mut self, full_name: &str) -> Self {
        full_name.clone_into(&mut self.repo);
        self
    }

    #[track_caller]
    fn change<T>(&self, change: impl FnOnce(&mut State, usize) -> T) -> T {
        self.forge.change(|state| {
            let at =
                state.position(&self.repo).unwrap_or_else(|| panic!("there is no repository {}", self.repo));
            change(state, at)
        })
    }

    /// Pushes a commit that writes these files: to a branch, or to a new one from the default branch.
    #[track_caller]
    pub fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        self.push_onto(branch, files, None)
    }

    /// Replaces a branch by one commit on top of the default branch.
    #[track_caller]
    pub fn force_push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let onto = self.change(|state, at| {
            let repo = &state.repos[at];
            repo.bare().tip(&repo.default_branch).expect("the default branch exists")
        });
        self.push_onto(branch, files, Some(onto))
    }

    #[track_caller]
    fn push_onto(&self, branch: &str, files: &[(&str, &str)], onto: Option<String>) -> String {
        let (sha, pushed) = self.change(|state, at| {
            let repo = &state.repos[at];
            let (bare, old) = (repo.bare(), repo.bare().tip(branch));
            let parent = onto.or_else(|| old.clone()).or_else(|| bare.tip(&repo.default_branch));
            let names: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
            let message = format!("{} by {}", names.join(", "), self.login);
            let new = bare.commit_files(parent.as_deref(), files, &self.login, &message);
            let reference = format!("refs/heads/{branch}");
            assert!(bare.update(&reference, &new, old.as_deref().unwrap_or(NOTHING)), "{branch} moved");
            let forced = old.as_ref().is_some_and(|old| !bare.contains(&new, old));
            let pushed = Pushed {
                repo: repo.full_name(),
                by: self.login.clone(),
                reference,
                old,
                new: Some(new.clone()),
                forced,
                accepted: true,
            };
            state.next_moment();
            state.follow(&self.login);
            (new, pushed)
        });
        self.forge.record_push(pushed);
        sha
    }

    /// Deletes a branch.
    #[track_caller]
    pub fn delete_branch(&self, branch: &str) {
        self.change(|state, at| {
            state.next_moment();
            assert!(state.delete_branch(at, branch, &self.login), "there is no branch {branch}");
        });
    }

    /// Submits a review, with remarks beside lines; returns its number.
    #[track_caller]
    pub fn review(&self, number: u64, verdict: Verdict, body: &str, inline: &[Inline]) -> u64 {
        self.change(|state, at| {
            let moment = state.next_moment();
            let (id, login) = (state.serial(), self.login.clone());
            let hunks: Vec<String> = {
                let repo = &state.repos[at];
                let (_, pull) =
                    repo.pull(number).unwrap_or_else(|| panic!("there is no pull request {number}"));
                let hunk = |inline: &Inline| {
                    let range = format!("{}...{}", pull.base_sha, pull.head_sha);
                    let diff = repo.bare().ask(["diff", &range, "--", &inline.path]).unwrap_or_default();
                    diff.lines().skip_while(|line| !line.starts_with("@@")).collect::<Vec<_>>().join("\n")
                };
                inline.iter().map(hunk).collect()
            };
            let ids: Vec<(u64, u64)> = inline.iter().map(|_| (state.serial(), state.serial())).collect();
            let issue = state.repos[at].issues.get_mut(&number).expect("it was found");
            issue.updated = moment;
            let pull = issue.pull_mut();
            let commit = pull.head_sha.clone();
            pull.reviewers.retain(|asked| *asked != login);
            for ((inline, hunk), (thread, comment)) in inline.iter().zip(hunks).zip(ids) {
                pull.threads.push(Thread {
                    id: thread,
                    path: inline.path.clone(),
                    line: inline.line,
                    hunk,
                    commit: commit.clone(),
                    review: id,
                    resolved: false,
                    comments: vec![Comment::new(comment, &login, &inline.body, moment)],
                });
            }
            let body = body.to_owned();
            pull.reviews.push(Review { id, author: login, verdict, body, commit, at: moment });
            id
        })
    }

    /// Approves.
    #[track_caller]
    pub fn approve(&self, number: u64) -> u64 {
        self.review(number, Verdict::Approved, "", &[])
    }

    /// Makes a review void.
    #[track_caller]
    pub fn dismiss(&self, number: u64, review: u64) {
        self.pull(number, |pull| {
            let found = pull.reviews.iter_mut().find(|known| known.id == review);
            found.expect("there is such a review").verdict = Verdict::Dismissed;
        });
    }

    /// Answers in every conversation beside a line of this file.
    #[track_caller]
    pub fn reply(&self, number: u64, path: &str, body: &str) {
        let id = self.change(|state, _| state.serial());
        let moment = self.change(|state, _| state.next_moment());
        let comment = Comment::new(id, &self.login, body, moment);
        self.pull(number, |pull| {
            let thread = pull.threads.iter_mut().find(|thread| thread.path == path);
            thread.expect("there is a conversation in that file").comments.push(comment);
        });
    }

    /// Settles every conversation beside a line of this file.
    #[track_caller]
    pub fn resolve(&self, number: u64, path: &str) {
        self.pull(number, |pull| {
            pull.threads
                .iter_mut()
                .filter(|thread| thread.path == path)
                .for_each(|thread| thread.resolved = true);
        });
    }

    #[track_caller]
    fn pull(&self, number: u64, change: impl FnOnce(&mut super::state::Pull)) {
        self.change(|state, at| {
            let moment = state.next_moment();
            let issue = state.repos[at].issues.get_mut(&number);
            let issue = issue.unwrap_or_else(|| panic!("there is no pull request {number}"));
            issue.updated = moment;
            change(issue.pull_mut());
        });
    }

    /// Comments on an issue or pull request; returns the comment's number.
    #[track_caller]
    pub fn comment(&self, number: u64, body: &str) -> u64 {
        self.change(|state, at| {
            let moment = state.next_moment();
            state.comment(at, number, moment, &self.login, body)
        })
    }

    /// Edits a comment.
    #[track_caller]
    pub fn edit_comment(&self, id: u64, body: &str) {
        self.with_comment(id, |comment, moment| comment.edit(moment, &self.login, body));
    }

    /// Hides a comment.
    #[track_caller]
    pub fn minimize(&self, id: u64, why: &str) {
        self.with_comment(id, |comment, _| comment.minimized = Some(why.to_owned()));
    }

    /// Deletes a comment.
    #[track_caller]
    pub fn delete_comment(&self, id: u64) {
        self.change(|state, at| {
            for issue in state.repos[at].issues.values_mut() {
                issue.comments.retain(|comment| comment.id != id);
            }
        });
    }

    #[track_caller]
    fn with_comment(&self, id: u64, change: impl FnOnce(&mut Comment, super::state::Moment)) {
        self.change(|state, at| {
            let moment = state.next_moment();
            let comments = state.repos[at].issues.values_mut().flat_map(|issue| {
                let threads = issue.pull.iter_mut().flat_map(|pull| &mut pull.threads);
                issue.comments.iter_mut().chain(threads.flat_map(|thread| &mut thread.comments))
            });
            let found = comments.into_iter().find(|comment| comment.id == id);
            change(found.expect("there is such a comment"), moment);
        });
    }

    /// Merges a pull request with a merge commit, as far as the rules allow it.
    #[track_caller]
    pub fn merge(&self, number: u64) -> String {
        self.merge_by(number, Method::Merge)
    }

    /// Merges a pull request this way; returns the commit on the base.
    #[track_caller]
    pub fn merge_by(&self, number: u64, method: Method) -> String {
        self.change(|state, at| {
            state.next_moment();
            let wish = Wish { by: &self.login, method, sha: None, title: None, message: None };
            state
                .merge(at, number, &wish)
                .unwrap_or_else(|refused| panic!("#{number} is not merged: {refused:?}"))
        })
    }

    /// Closes an issue or pull request.
    #[track_caller]
    pub fn close(&self, number: u64) {
        self.change(|state, at| {
            let moment = state.next_moment();
            let is_issue = state.repos[at].issues[&number].pull.is_none();
            state.close(at, number, moment, &self.login, is_issue.then_some("completed"));
        });
    }

    /// Opens it again.
    #[track_caller]
    pub fn reopen(&self, number: u64) {
        self.change(|state, at| {
            let moment = state.next_moment();
            state.reopen(at, number, moment, &self.login).expect("it can be opened again");
        });
    }

    /// Gives a pull request another base.
    #[track_caller]
    pub fn retarget(&self, number: u64, base: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            assert!(state.repos[at].bare().tip(base).is_some(), "there is no branch {base}");
            state.retarget(at, number, moment, &self.login, base);
            state.follow(&self.login);
        });
    }

    /// Makes a pull request a draft.
    #[track_caller]
    pub fn make_draft(&self, number: u64) {
        self.change(|state, at| {
            state.next_moment();
            state.set_draft(at, number, &self.login, true);
        });
    }

    /// Makes it ready for review.
    #[track_caller]
    pub fn ready(&self, number: u64) {
        self.change(|state, at| {
            state.next_moment();
            state.set_draft(at, number, &self.login, false);
        });
    }

    /// Opens a pull request for a branch, or for `owner:branch`; returns its number.
    #[track_caller]
    pub fn open_pull(&self, head: &str, base: &str, title: &str, body: &str) -> u64 {
        self.change(|state, at| {
            state.next_moment();
            let author = &self.login;
            let proposal = Proposal { author, title, body, head, head_repo: None, base, draft: false };
            state
                .propose(at, &proposal)
                .unwrap_or_else(|refused| panic!("{head} is not proposed: {refused:?}"))
        })
    }

    /// Opens an issue; returns its number.
    #[track_caller]
    pub fn open_issue(&self, title: &str, body: &str) -> u64 {
        self.change(|state, at| {
            state.next_moment();
            state.open_issue(at, &self.login, title, body)
        })
    }

    /// Changes the text of an issue or pull request.
    #[track_caller]
    pub fn edit_issue(&self, number: u64, body: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            state.rewrite(at, number, moment, &self.login, None, Some(body));
        });
    }

    /// Changes the title.
    #[track_caller]
    pub fn rename_issue(&self, number: u64, title: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            state.rewrite(at, number, moment, &self.login, Some(title), None);
        });
    }

    /// Puts a label on an issue or pull request; it is made if there is none.
    #[track_caller]
    pub fn label(&self, number: u64, name: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            state.label(at, number, moment, &self.login, name);
        });
    }

    /// Takes a label off.
    #[track_caller]
    pub fn unlabel(&self, number: u64, name: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            let issue = state.repos[at].issues.get_mut(&number).expect("there is such an issue");
            issue.labels.retain(|known| known != name);
            state.note(at, number, moment, &self.login, Happened::Unlabeled(name.to_owned()));
        });
    }

    /// Assigns an issue to a user.
    #[track_caller]
    pub fn assign(&self, number: u64, login: &str) {
        self.change(|state, at| {
            let moment = state.next_moment();
            let issue = state.repos[at].issues.get_mut(&number).expect("there is such an issue");
            issue.assignees.push(login.to_owned());
            state.note(at, number, moment, &self.login, Happened::Assigned(login.to_owned()));
        });
    }

    /// Says that an issue waits for another one.
    #[track_caller]
    pub fn block(&self, number: u64, by: u64) {
        self.change(|state, at| {
            let id = state.repos[at].issues[&by].id;
            state.repos[at].issues.get_mut(&number).expect("there is such an issue").blocked_by.push(id);
        });
    }

    /// Makes an issue a part of another one.
    #[track_caller]
    pub fn make_part(&self, parent: u64, part: u64) {
        self.change(|state, at| {
            let id = state.repos[at].issues[&part].id;
            state.repos[at].issues.get_mut(&parent).expect("there is such an issue").sub_issues.push(id);
        });
    }

    /// Lets nobody but members comment on an issue any more.
    #[track_caller]
    pub fn lock(&self, number: u64) {
        self.change(|state, at| {
            state.repos[at].issues.get_mut(&number).expect("there is such an issue").locked = true;
        });
    }

    /// Gives the repository another name.
    #[track_caller]
    pub fn rename_repo(&self, name: &str) {
        self.change(|state, at| {
            let repo = &mut state.repos[at];
            let former = repo.full_name();
            repo.former.push(former);
            name.clone_into(&mut repo.name);
        });
    }
}
