//! What the binary lends the server: the acts of its commands, and what only it knows.

use async_trait::async_trait;
use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_core::verdict::Verdict;
use regatta_store::{Author, Message, MessageKind, Recipients, Word};
use serde_json::Value;

use super::Refusal;
use regatta_ops::documents::crew::{
    BoardTaskDocument, ClaimDocument, ContextDocument, MemberDocument, PostedDocument,
};
use regatta_ops::documents::{ChangesDocument, RadarDocument, StatusDocument, TaskDocument};

/// For whom somebody speaks: a member by name, or whoever this process speaks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// The member.
    pub name: Option<MemberName>,
}

/// A task for the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOrder {
    /// What it is, in one line.
    pub title: String,
    /// What is to be done.
    pub description: Option<String>,
    /// Its id; the next free number where there is none.
    pub id: Option<TaskId>,
    /// Higher first.
    pub priority: i32,
    /// The role it is for.
    pub role: Option<Role>,
    /// The member it is for.
    pub assignee: Option<MemberName>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
}

/// Which task to take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOrder {
    /// Who takes it.
    pub who: Speaker,
    /// The one that is named; the next that suits where none is.
    pub task: Option<String>,
    /// With a worktree of its own.
    pub lane: bool,
}

/// A task that is handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteOrder {
    /// Who hands it in.
    pub who: Speaker,
    /// The task.
    pub task: String,
    /// What came of it.
    pub result: String,
    /// How good it is.
    pub verdict: Verdict,
    /// The token of the claim.
    pub token: Option<String>,
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostOrder {
    /// From whom.
    pub who: Speaker,
    /// For whom.
    pub to: Recipients,
    /// What kind it is.
    pub kind: MessageKind,
    /// What it says; of a question, the question.
    pub text: String,
    /// Of a question: what one has to know to answer it.
    pub context: Option<String>,
    /// The message it answers.
    pub reply_to: Option<u64>,
}

/// Which messages to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxOrder {
    /// Whose.
    pub reader: MemberName,
    /// Those that were shown before, too.
    pub all: bool,
    /// Leave new ones new.
    pub peek: bool,
    /// Only from this one.
    pub from: Option<MemberName>,
    /// Only answers to this message.
    pub reply_to: Option<u64>,
}

/// A value for the shared context; none deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextOrder {
    /// Who writes.
    pub who: Speaker,
    /// Under which key.
    pub key: String,
    /// What.
    pub value: Option<String>,
    /// Only if it is in this version.
    pub if_version: Option<u64>,
}

/// Work for the daemon's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueOrder {
    /// The text of a task file or a plan.
    Plan {
        /// The Markdown.
        text: String,
        /// Start over what is there already.
        replace: bool,
    },
    /// Files, directories or ids of files in tasks/.
    Files {
        /// As they would be typed.
        what: Vec<String>,
        /// Start over what is there already.
        replace: bool,
    },
    /// One task that has no file.
    Prompt {
        /// What is to be done.
        prompt: String,
        /// Its id.
        id: Option<TaskId>,
        /// One line for people.
        title: Option<String>,
        /// What it depends on.
        deps: Vec<TaskId>,
        /// The agent that does it.
        agent: Option<String>,
        /// Higher first.
        priority: Option<i32>,
        /// Land what passes.
        land: bool,
    },
}

/// The binary. Each act is that of the command of the same name, with its refusals and its next steps.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Timestamp;

    /// `text` without the secrets that this process knows.
    fn without_secrets(&self, text: &str) -> String;

    /// Joins the crew; the member is there as long as this server is, or is heard.
    async fn register(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, Refusal>;

    /// The member is still there, and works on that task.
    async fn heartbeat(&self, who: &Speaker, task: Option<&str>) -> Result<MemberDocument, Refusal>;

    /// The member of that name called a tool: it is there.
    async fn heard(&self, name: &MemberName);

    /// Whoever speaks, and by what right.
    async fn author(&self, who: &Speaker) -> Result<Author, Refusal>;

    /// Whose inbox is meant.
    async fn reader(&self, who: &Speaker) -> Result<MemberName, Refusal>;

    /// Puts a task on the board.
    async fn push(&self, order: PushOrder) -> Result<BoardTaskDocument, Refusal>;

    /// Takes a task from the board.
    async fn claim(&self, order: ClaimOrder) -> Result<ClaimDocument, Refusal>;

    /// Hands a task in.
    async fn complete(&self, order: CompleteOrder) -> Result<BoardTaskDocument, Refusal>;

    /// Sends a message.
    async fn post(&self, order: PostOrder) -> Result<PostedDocument, Refusal>;

    /// Reads messages, and marks what was new as read.
    async fn inbox(&self, order: &InboxOrder) -> Result<Vec<Message>, Refusal>;

    /// Writes a value, or deletes it.
    async fn write_context(&self, order: ContextOrder) -> Result<ContextDocument, Refusal>;

    /// Puts work into the daemon's queue.
    async fn enqueue(&self, order: EnqueueOrder) -> Result<ChangesDocument, Refusal>;

    /// Tasks in these states, those that changed last; all states where none is named.
    async fn tasks(&self, status: &str, limit: usize) -> Result<Vec<TaskDocument>, Refusal>;

    /// Everything about one task.
    async fn status(&self, task: &str) -> Result<StatusDocument, Refusal>;

    /// Whose work meets; none where nothing is under way. Only what concerns `task` if one is named.
    async fn radar(&self, task: Option<&str>) -> Result<Option<RadarDocument>, Refusal>;

    /// The train.
    async fn land_status(&self) -> Result<Value, Refusal>;

    /// The end of the transcript of a task's last attempt, without secrets, of at most so many bytes.
    async fn log(&self, task: &str, most: usize) -> Result<String, Refusal>;

    /// A worker's word, without secrets, as it is kept.
    fn clean_word(&self, word: Word) -> Word;

    /// Who takes work from the daemon's queue, in a sentence.
    async fn takers(&self) -> Result<String, Refusal>;
}
