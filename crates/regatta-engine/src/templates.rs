//! The texts of messages, and how a project replaces them.
//!
//! A file `.regatta/templates/<name>.md` replaces the built-in text.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use regatta_core::crew::{Template, TemplateError};
use regatta_core::part::Link;
use regatta_core::time::Timestamp;
use regatta_store::{Message, MessageKind};

/// A text that a project may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// How one message is presented to an agent.
    Message,
    /// What is sent to members who are asked for help.
    Help,
    /// What is sent about a completed task.
    Report,
    /// The prompt of a planner.
    Plan,
    /// The prompt of a chain's builder.
    Build,
    /// The prompt of a verifier, if it is an agent.
    Verify,
    /// The prompt of a reviewer.
    Review,
    /// The prompt of an accepter.
    Accept,
    /// The follow-up to a builder whose work is sent back.
    Feedback,
}

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateFault {
    /// It cannot be read.
    #[error("reading {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// It has a mistake.
    #[error("{}: {error}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The mistake and its line.
        error: TemplateError,
    },
}

impl Text {
    /// All texts.
    pub const ALL: [Text; 9] = [
        Text::Message,
        Text::Help,
        Text::Report,
        Text::Plan,
        Text::Build,
        Text::Verify,
        Text::Review,
        Text::Accept,
        Text::Feedback,
    ];

    /// The prompt of a link's agent.
    pub fn of_link(link: Link) -> Self {
        match link {
            Link::Verify => Text::Verify,
            Link::Review => Text::Review,
            Link::Accept => Text::Accept,
        }
    }

    /// The name of its file, without `.md`.
    pub fn name(self) -> &'static str {
        match self {
            Text::Message => "message",
            Text::Help => "help",
            Text::Report => "report",
            Text::Plan => "plan",
            Text::Build => "build",
            Text::Verify => "verify",
            Text::Review => "review",
            Text::Accept => "accept",
            Text::Feedback => "feedback",
        }
    }

    /// The variables that it may use.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Text::Message => &["id", "from", "to", "kind", "at", "reply_to", "text"],
            Text::Help => &["from", "question", "context"],
            Text::Report => &["from", "task", "title", "verdict", "result"],
            Text::Plan => &["id", "goal", "agents", "schema"],
            Text::Build => &["id", "title", "prompt"],
            Text::Verify | Text::Review | Text::Accept => {
                &["id", "chain", "title", "prompt", "base", "head", "diff", "changes", "checks", "summary"]
            }
            Text::Feedback => &["chain", "link", "role", "round", "rounds", "feedback"],
        }
    }

    /// The built-in text.
    pub fn built_in(self) -> &'static str {
        match self {
            Text::Message => "Message {{id}} from {{from}} ({{kind}}):\n{{text}}\n",
            Text::Help => "{{question}}\n\n{{context}}",
            Text::Report => "{{task}} ({{title}}) is completed, {{verdict}}: {{result}}",
            Text::Plan => include_str!("templates/plan.md"),
            Text::Build => include_str!("templates/build.md"),
            Text::Verify => include_str!("templates/verify.md"),
            Text::Review => include_str!("templates/review.md"),
            Text::Accept => include_str!("templates/accept.md"),
            Text::Feedback => include_str!("templates/feedback.md"),
        }
    }

    /// The file in which a project replaces it.
    pub fn file(self, state_dir: &Path) -> PathBuf {
        state_dir.join("templates").join(format!("{}.md", self.name()))
    }

    /// The project's own template, or the built-in one.
    pub fn load(self, state_dir: &Path) -> Result<Template, TemplateFault> {
        let path = self.file(state_dir);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                Template::parse(&text, self.variables()).map_err(|error| TemplateFault::Wrong { path, error })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.standard()),
            Err(source) => Err(TemplateFault::Unreadable { path, source }),
        }
    }

    /// The built-in template.
    pub fn standard(self) -> Template {
        Template::parse(self.built_in(), self.variables()).expect("what is built in is right")
    }
}

/// One message, rendered with `template`.
pub fn message(template: &Template, message: &Message) -> String {
    let kind = match message.kind {
        MessageKind::Direct => "to you",
        MessageKind::Broadcast => "to everybody",
        MessageKind::Help => "asks everybody for help",
    };
    let at: Timestamp = message.at;
    template.render(|name| match name {
        "id" => message.id.to_string(),
        "from" => message.from.to_string(),
        "to" => message.to.to_string(),
        "kind" => kind.to_owned(),
        "at" => at.to_string(),
        "reply_to" => message.reply_to.map_or_else(String::new, |id| id.to_string()),
        _ => message.text.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_says_it_otherwise_and_mistakes_are_told_with_their_place() {
        let dir = tempfile::tempdir().unwrap();
        for text in Text::ALL {
            assert_eq!(text.load(dir.path()).unwrap(), text.standard());
        }
        let file = Text::Report.file(dir.path());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{{task}}: {{result}}").unwrap();
        let mine = Text::Report.load(dir.path()).unwrap();
        assert_eq!(mine.render(|name| name.to_uppercase()), "TASK: RESULT");
        std::fs::write(&file, "well\n{{question}}").unwrap();
        let fault = Text::Report.load(dir.path()).unwrap_err().to_string();
        assert!(fault.ends_with("report.md: line 2: unknown variable \"question\"; known here: from, task, title, verdict, result"), "{fault}");
    }
}
