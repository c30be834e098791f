//! What keys do to tasks: the same code as the commands, with the result in one line.

use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_ops::crew::{Crew, PostRequest, sentence};
use regatta_ops::diff::DiffRequest;
use regatta_ops::documents::RetiredDocument;
use regatta_ops::tasks::retire::retire_lane;
use regatta_ops::tasks::{
    BoardRequest, CancelRequest, Conversation, FOREVER, ParkRequest, RetryRequest, SendRequest, Way, When,
    Why, line,
};
use regatta_store::{BOARD_QUEUE, MessageKind, Recipients, Store};

use super::addressee::unread_for_ever;
use super::screen::{Change, PageKind};
use crate::commands::lane::retire::sentence as sentence_of;
use crate::commands::status;
use crate::crew::As;
use crate::project::Project;
use crate::queue::{Operator, Selection};
use crate::render::shown::clean;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// The most lines of a diff to show.
const MOST_LINES: usize = 20_000;

/// Makes the change and returns the result in one line.
pub(super) async fn change(
    project: &Project,
    store: Arc<dyn Store>,
    change: Change,
    id: &TaskId,
) -> Result<String, Refusal> {
    if change == Change::Retire {
        let salvaged = retire_lane(project, Some(&store), id, false).await?;
        return Ok(sentence_of(&RetiredDocument { removed: true, salvaged, task: id.clone() }));
    }
    let operator = Operator::of(project, store).await?;
    let tasks = Selection::one(id);
    let (changes, taken) = match change {
        Change::Cancel => (operator.cancel(&CancelRequest { tasks, wait: false }).await?, false),
        Change::Requeue => (operator.requeue(&tasks).await?, true),
        Change::Retry => {
            (operator.retry(&RetryRequest { tasks, conversation: Conversation::Resume }).await?, true)
        }
        Change::Park => (operator.park(&ParkRequest { tasks, until: FOREVER, why: None }).await?, false),
        Change::Unpark => (operator.unpark(&tasks).await?, true),
        Change::Land => {
            (operator.board(&BoardRequest { tasks, why: Why::Good, way: Way::Usual }).await?, false)
        }
        Change::Retire => unreachable!("it was dealt with above"),
    };
    let changed = changes.only()?;
    let mut text = changed.sentence();
    if taken {
        text.push_str(&format!("; {}", operator.takers.sentence(&changed.task.queue)));
    }
    let is_in_train = matches!(changed.task.state, TaskState::Landing { .. });
    if change == Change::Land && is_in_train && operator.takers.daemon().is_none() {
        text.push_str(&format!("; no daemon is running: `regatta land {id}` lands it now"));
    }
    Ok(text)
}

/// Sends a follow-up prompt to a task's agent.
pub(super) async fn send(
    project: &Project,
    store: Arc<dyn Store>,
    id: &TaskId,
    text: &str,
) -> Result<String, Refusal> {
    let operator = Operator::of(project, store).await?;
    let request = SendRequest { task: id.to_string(), text: text.to_owned(), when: When::Next };
    let sent = operator.send(&request).await?;
    let hint = sent.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    Ok(format!("{}{hint}", line(&sent, When::Next)))
}

/// Sends a message to a member, or to the agent or member that works on a task.
pub(super) async fn message(
    project: &Project,
    store: Arc<dyn Store>,
    who: &As,
    name: &MemberName,
    text: &str,
) -> Result<String, Refusal> {
    let members = store.members().await?;
    let (mut to, mut then) = (name.clone(), String::new());
    if !members.iter().any(|member| member.name.is(name)) {
        // Not a member, so it is a task; who reads for it is decided now.
        let task = store.task(name.as_task()).await?;
        let id = &task.spec.id;
        match members.iter().find(|member| task.session.as_ref() == Some(&member.session)) {
            Some(holder) => to = holder.name.clone(),
            None => {
                if let Some((why, hint)) = unread_for_ever(id, &task.state, task.queue == BOARD_QUEUE) {
                    return Err(Refusal::refused(why).hinted(hint));
                }
                then = if task.state.is_claimed() {
                    "; it reads the message with `regatta msg inbox`, or when its next attempt begins"
                        .to_owned()
                } else {
                    "; its agent receives the message when its next attempt begins".to_owned()
                };
            }
        }
    }
    if members.iter().any(|member| member.name.is(&to) && !member.is_there) {
        then = format!("; {to} has left, and receives it on return");
    }
    let (from, to, kind) = (who.speaker(), Recipients::One(to), MessageKind::Direct);
    let request = PostRequest { from, to, kind, text: text.to_owned(), reply_to: None };
    let posted = Crew::of(project, store).post(request).await?;
    Ok(format!("{}{then}", sentence(&posted)))
}

/// Reads the text of a page.
pub(super) async fn read(
    project: &Project,
    store: Arc<dyn Store>,
    kind: PageKind,
    id: &TaskId,
    ui: &Ui,
) -> Result<Vec<(Style, String)>, Refusal> {
    let task = store.task(id).await?;
    match kind {
        PageKind::Detail => {
            let kept = Arc::new(Mutex::new(Vec::new()));
            let ui = Ui { kept: Some(Arc::clone(&kept)), quiet: false, ..ui.clone() };
            status::show(project, &store, &task, &ui).await?;
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let text = String::from_utf8_lossy(&kept);
            Ok(clean(&text)
                .lines()
                .enumerate()
                .map(|(n, line)| (detail_style(n, line), line.to_owned()))
                .collect())
        }
        PageKind::Diff => {
            let diff = project.diff(&DiffRequest::patch(id.to_string())).await?;
            let base = diff.base.short();
            let text = clean(&String::from_utf8_lossy(&diff.text));
            let mut lines: Vec<(Style, String)> =
                text.lines().take(MOST_LINES).map(|line| (diff_style(line), line.to_owned())).collect();
            if lines.is_empty() {
                lines.push((Style::Dim, format!("{id} changed nothing since {base}")));
            } else if text.lines().count() > MOST_LINES {
                lines.push((Style::Wait, format!("… cut here; `regatta diff {id}` shows everything")));
            }
            lines.extend(diff.notes().into_iter().map(|note| (Style::Wait, note)));
            Ok(lines)
        }
        PageKind::Logs => Ok(Vec::new()),
    }
}

fn detail_style(n: usize, line: &str) -> Style {
    match line.split(' ').next() {
        _ if n == 0 => Style::Strong,
        Some("attempt") => Style::Strong,
        Some("next") => Style::Busy,
        Some("salvage" | "held" | "cancel") => Style::Wait,
        _ => Style::Plain,
    }
}

fn diff_style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') if line.starts_with("+++ ") => Style::Strong,
        Some(b'-') if line.starts_with("--- ") => Style::Strong,
        Some(b'+') => Style::Good,
        Some(b'-') => Style::Bad,
        Some(b'@') => Style::Busy,
        Some(b' ') | None => Style::Plain,
        Some(_) => Style::Strong,
    }
}
