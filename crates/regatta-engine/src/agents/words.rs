//! Instructions to agents besides their task: where they are, how to report, what they must not do.

use super::launch::{Brief, SessionPlan, headed, prompt_with_guidance};

const PLACE: &str = "\
You are one of several agents that Regatta runs unattended, each on its own task in its own git worktree. \
No one is watching and no one will answer questions.

Stay inside the current directory: it is your lane. Other agents work in their own. ";

const NO_PUSH: &str = "\
Do not switch branches, push, merge or touch other worktrees. \
You do not need to commit: Regatta commits what it finds here, checks it and lands it.";

/// A detached HEAD has no branch that could be pushed by its name.
fn one_push(branch: &str) -> String {
    format!(
        "Do not switch branches, merge or touch other worktrees. You do not need to commit: Regatta commits what it \
         finds here to the branch {branch}. If your task asks for a pull request, commit, then \
         `git push origin HEAD:refs/heads/{branch}` and `gh pr create --head {branch}`; push nothing else."
    )
}

const BY_COMMAND: &str = "\
While you work, report your progress now and then with `regatta progress \"<what you are doing>\"`.
When you are finished, run `regatta done --verdict pass --summary \"<one or two sentences>\"` as your last action. \
Use `--verdict warn` if you have reservations and `--verdict block` if the task cannot be done as asked, and say why in the summary. \
Run it once, and only after you have checked your work: Regatta runs its own checks afterwards, and a claim that they disprove counts as a failure.
If only a person can help (access, a decision, missing facts), run `regatta stuck \"<what you need>\"` and stop.";

const BY_TOOL_TOO: &str = "\
The MCP server `regatta` offers the same as tools: `progress`, `done` and `stuck`. Use either, but `done` only once. \
`ask` and `send_message` reach other agents and people; `get_context` reads what all agents share.";

const BY_TOOL: &str = "\
Report with the tools of the MCP server `regatta`; commands that write outside this directory do not work here. \
While you work, report your progress now and then with the tool `progress`.
When you are finished, call the tool `done` as your last action, with the verdict `pass` and a summary of one or two sentences. \
Use `warn` if you have reservations and `block` if the task cannot be done as asked, and say why in the summary. \
Call it once, and only after you have checked your work: Regatta runs its own checks afterwards, and a claim that they disprove counts as a failure.
If only a person can help (access, a decision, missing facts), call the tool `stuck` and stop.";

const BY_ANSWER: &str = "\
When you are finished, end your answer with the line `{\"verdict\":\"pass\",\"summary\":\"<one or two sentences>\"}`. \
Use `warn` instead of `pass` if you have reservations and `block` if the task cannot be done as asked, and say why in the summary.";

/// What an agent in a sandbox has to know, or it would take a refusal for a fault of its own.
const INSIDE: &str = "\
You work in a sandbox. You can write this directory and the temporary directory (`$TMPDIR`), which is yours alone. \
Your home directory is a copy: what you write there is thrown away, and keys and passwords are not in it. \
Everything else is read-only. Package managers keep their caches in a directory of this project. \
`regatta done`, `regatta progress` and `git commit` work as usual.";

const INSIDE_READ_ONLY: &str = "\
You work in a sandbox: only the temporary directory (`$TMPDIR`) can be written. `regatta done` works as usual.";

const LIMITED_NETWORK: &str = "\
Only some hosts can be reached. A refused host is no fault of yours: do without it, or name it in your report.";

const READ_ONLY: &str =
    "This task is read-only: read and search, but change no file and run nothing that writes.";

/// How an agent reports its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It runs `regatta done`.
    Command,
    /// It may run nothing that writes, and calls `done` of Regatta's own server.
    Tool,
    /// It may run nothing, and reports in its answer.
    Answer,
}

/// The general rules, if there are any for this attempt.
pub(super) fn rules(brief: &Brief<'_>, report: Report) -> Option<String> {
    let how = match report {
        Report::Command if brief.is_attached() => format!("{BY_COMMAND}\n{BY_TOOL_TOO}"),
        Report::Command => BY_COMMAND.to_owned(),
        Report::Tool => BY_TOOL.to_owned(),
        Report::Answer => BY_ANSWER.to_owned(),
    };
    let branches = if brief.pull_request { one_push(&brief.task.branch()) } else { NO_PUSH.to_owned() };
    let rules = brief.reports.then(|| format!("{PLACE}{branches}\n\n{how}"));
    let inside =
        (brief.door && brief.reports).then_some(if brief.cannot_write() { INSIDE_READ_ONLY } else { INSIDE });
    let network = (brief.limited_network && brief.reports).then_some(LIMITED_NETWORK);
    let parts = [rules.as_deref(), inside, network, brief.read_only.then_some(READ_ONLY)];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// A resumed conversation needs only the news; a new one needs everything.
pub(super) fn prompt(brief: &Brief<'_>, report: Report) -> String {
    if let (SessionPlan::Resume(_), Some(follow_up)) = (brief.session, brief.follow_up) {
        return said_since(brief, follow_up, report);
    }
    if matches!(brief.session, SessionPlan::New(_)) {
        return prompt_with_guidance(brief);
    }
    let Some(guidance) = brief.guidance else { return cut_short(brief, report) };
    let finish = match (brief.reports, report) {
        (false, _) => "",
        (true, Report::Command) => " When it is fixed, finish with `regatta done` as before.",
        (true, Report::Tool) => " When it is fixed, finish with the tool `done` as before.",
        (true, Report::Answer) => " When it is fixed, finish with the verdict as before.",
    };
    format!(
        "Your task ({}) is not finished: this is attempt {}.\n\n{}\n\n\
         Your earlier changes are still in this directory. Fix the problem described above, and check \
         it in the same way.{finish}\n",
        brief.task,
        brief.attempt,
        guidance.trim(),
    )
}

/// For an agent that was interrupted by a limit, a failing server or a shutdown. With the task alone it would start
/// over; an agent that had already reported would not report again.
fn cut_short(brief: &Brief<'_>, report: Report) -> String {
    let finish = match (brief.reports, report) {
        (false, _) => "",
        (true, Report::Command) => {
            " Finish with `regatta done` as before, even if you already ran it: only reports of this attempt count."
        }
        (true, Report::Tool) => {
            " Finish with the tool `done` as before, even if you already called it: only reports of this attempt count."
        }
        (true, Report::Answer) => " Finish with the verdict as before, even if you already gave it.",
    };
    format!(
        "You were interrupted, through no fault of yours. This is attempt {}, and your work is still in this directory. \
         Continue where you stopped, and do not repeat finished work.{finish}\n\nThe task is the same:\n\n{}",
        brief.attempt, brief.prompt,
    )
}

/// A follow-up in a resumed conversation. Its text comes first and unchanged: it may be one of the agent's own
/// commands.
fn said_since(brief: &Brief<'_>, follow_up: &str, report: Report) -> String {
    if is_own_command(follow_up) {
        return format!("{}\n", follow_up.trim());
    }
    let finish = match (brief.reports, report) {
        (false, _) => String::new(),
        (true, Report::Command) => " Finish with `regatta done` as before.".to_owned(),
        (true, Report::Tool) => " Finish with the tool `done` as before.".to_owned(),
        (true, Report::Answer) => " Finish with the verdict as before.".to_owned(),
    };
    let guidance = brief.guidance.map_or_else(String::new, headed);
    format!(
        "{}{guidance}\n\n(This is a follow-up to your task {}: attempt {}. This directory contains its work or, if that has \
         landed, the target branch as it is now.{finish})\n",
        follow_up.trim_end(),
        brief.task,
        brief.attempt,
    )
}

/// Agents' own commands that affect only the conversation. Those of a project or a plugin may be whole tasks.
const OWN_COMMANDS: [&str; 9] =
    ["/clear", "/compact", "/config", "/context", "/cost", "/help", "/model", "/status", "/usage"];

/// Whether the text is one of the agent's own commands, such as `/compact`, and not a task.
pub fn is_own_command(words: &str) -> bool {
    words.split_whitespace().next().is_some_and(|first| OWN_COMMANDS.contains(&first))
}

/// For agents without a system prompt: the rules come before the task. A resumed conversation already has them.
pub(super) fn prompt_with_rules(brief: &Brief<'_>, report: Report) -> String {
    let prompt = prompt(brief, report);
    match (brief.session, rules(brief, report)) {
        (SessionPlan::New(_), Some(rules)) => format!("{rules}\n\n# Your task\n\n{prompt}"),
        _ => prompt,
    }
}
