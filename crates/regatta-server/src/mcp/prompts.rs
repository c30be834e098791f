//! Prompts that a person can select by name in their agent.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};

use super::answer::Refused;
use super::{Authority, Server};

/// The longest argument, in bytes.
const LONGEST_ARGUMENT_BYTES: usize = 64 * 1024;

const RUN_IN_PARALLEL: &str = "\
Have the following done in parallel by agents that Regatta runs, each in its own git worktree:

{what}

1. Look at the repository as far as you need to split the work well. Make one task for each thing that can be done and \
checked by itself. Two tasks that run at the same time must not edit the same files; if they have to, let one depend on the other.
2. For each, write a prompt that says everything its agent has to know: it sees the repository and your text, and nothing of \
this conversation. Name the files it may change, what must be true afterwards, and the command that shows it.
3. Show me the list (id, one line, depends on) before you start anything, unless I said not to ask.
4. Call the tool `enqueue` once per task (`id`, `title`, `prompt`, `deps`), dependencies first. If the answer says that no daemon \
is running, tell me to run `regatta daemon` (or run it in the background if I agree).
5. Then look with `list_tasks`, `status` and `radar`, and report: what is landed or done, what failed and why, what needs me.";

const REPORT: &str = "\
Report what Regatta's agents did{since}.

Read `list_tasks` and, for everything that is not simply landed, `status`. Say in this order, briefly: what needs a person now \
(blocked, failed, stuck) with the next step that `status` names; what runs and how far it is; what is done or landed, with \
branch or commit; what it cost. Look at `radar` and name what would conflict. Say nothing that the tools did not say.";

const REVIEW_TASK: &str = "\
Review the work of the Regatta task {task}.

Read its `status` (what was ordered, verdicts, evidence, checks) and the resource regatta://task/{task}/log (what its agent said and \
did). Look at the diff with `regatta diff {task}`. Judge: does the work do what was ordered, and nothing else? Is what the agent \
claims shown by the evidence? What is missing, wrong or risky, with file and line? End with one of: land it (`regatta land {task}`), \
send it back (`regatta send {task} \"…\"` with the exact words to send), or start over (`regatta requeue {task}`).";

/// All prompts. An unattended agent gets none, because there is no person to select one.
pub(super) fn list(authority: &Authority) -> ListPromptsResult {
    let prompts = match authority {
        Authority::Worker { .. } => Vec::new(),
        Authority::Operator => vec![
            Prompt::new(
                "run-in-parallel",
                Some("Split work into tasks and have agents do them side by side"),
                Some(vec![argument("what", "The things to be done", true)]),
            ),
            Prompt::new(
                "report",
                Some("What the agents did, and what needs you"),
                Some(vec![argument("since", "Only since then, in your words", false)]),
            ),
            Prompt::new(
                "review-task",
                Some("Judge the work of one task"),
                Some(vec![argument("task", "The task's id", true)]),
            ),
        ],
    };
    ListPromptsResult { prompts, ..ListPromptsResult::default() }
}

fn argument(name: &str, what: &str, required: bool) -> PromptArgument {
    PromptArgument::new(name).with_description(what).with_required(required)
}

/// One prompt, filled in.
pub(super) async fn get(
    server: &Server,
    name: &str,
    arguments: &JsonObject,
) -> Result<GetPromptResult, ErrorData> {
    let wrong = |why: String| ErrorData::invalid_params(why, None);
    let given = |name: &str| arguments.get(name).and_then(|value| value.as_str()).unwrap_or_default().trim();
    if arguments.values().any(|value| value.as_str().is_some_and(|text| text.len() > LONGEST_ARGUMENT_BYTES))
    {
        return Err(wrong(format!("an argument has more than {LONGEST_ARGUMENT_BYTES} bytes")));
    }
    let required = |name: &str| match given(name) {
        "" => Err(wrong(format!("the argument `{name}` is missing"))),
        text => Ok(text.to_owned()),
    };
    let text = match (name, &server.authority) {
        ("run-in-parallel", Authority::Operator) => RUN_IN_PARALLEL.replace("{what}", &required("what")?),
        ("report", Authority::Operator) => {
            let since = given("since");
            let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
            REPORT.replace("{since}", &since)
        }
        ("review-task", Authority::Operator) => {
            let task = required("task")?;
            let task =
                server.desk.status(&task).await.map_err(|why| wrong(Refused::from(why).to_string()))?.id;
            REVIEW_TASK.replace("{task}", task.as_str())
        }
        _ => {
            return Err(wrong(format!(
                "there is no prompt {name:?} (hint: run-in-parallel, report, review-task)"
            )));
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}
