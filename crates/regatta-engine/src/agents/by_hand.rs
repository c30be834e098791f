//! How a user continues an agent's conversation in their own terminal.

use std::collections::BTreeMap;

use regatta_core::config::AgentKind;

use super::launch::AgentProfile;

/// A command for a user's shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByHand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where the agent keeps its conversations, if that was set for it.
    pub env: Vec<(String, String)>,
}

/// The command that continues `session`; `None` for agents without conversations. Variables of the task override those
/// of the profile. Only variables that name locations are included: the rest may be secret, and users have their own.
///
/// `model` is the one used in the conversation: codex would switch to another one and compact the conversation.
pub fn by_hand(
    profile: &AgentProfile,
    session: &str,
    model: Option<&str>,
    task_env: &BTreeMap<String, String>,
) -> Option<ByHand> {
    let (program, args, places): (_, [&str; 2], &[&str]) = match profile.kind {
        AgentKind::Claude => ("claude", ["--resume", session], &["CLAUDE_CONFIG_DIR"]),
        AgentKind::Codex => ("codex", ["resume", session], &["CODEX_HOME"]),
        AgentKind::Gemini => ("gemini", ["--resume", session], &["GEMINI_CLI_HOME"]),
        AgentKind::Opencode => {
            ("opencode", ["--session", session], &["XDG_DATA_HOME", "XDG_CONFIG_HOME", "OPENCODE_CONFIG"])
        }
        AgentKind::Command | AgentKind::Sim => return None,
    };
    let mut argv = match profile.argv.as_slice() {
        [] => vec![program.to_owned()],
        argv => argv.to_vec(),
    };
    argv.extend(args.map(str::to_owned));
    if let Some(model) = model.filter(|_| profile.kind == AgentKind::Codex) {
        argv.extend(["--model", model].map(str::to_owned));
    }
    let value = |name: &str| task_env.get(name).or_else(|| profile.env.get(name));
    let env = places.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?.clone()))).collect();
    Some(ByHand { argv, env })
}

impl ByHand {
    /// One line for a POSIX shell that changes to `dir` first.
    pub fn line(&self, dir: &str) -> String {
        let mut line = format!("cd {} &&", shell_word(dir));
        for (name, value) in &self.env {
            line.push_str(&format!(" {name}={}", shell_word(value)));
        }
        for arg in &self.argv {
            line.push(' ');
            line.push_str(&shell_word(arg));
        }
        line
    }
}

impl ByHand {
    /// One line that does the same on another machine. A `~` is the home there.
    pub fn line_at(&self, host: &str, dir: &str) -> String {
        let mut line = format!("cd {} &&", shell_word(dir));
        for (name, value) in &self.env {
            line.push_str(&format!(" {name}={}", at_home(value)));
        }
        for arg in &self.argv {
            line.push(' ');
            line.push_str(&shell_word(arg));
        }
        // A name is never an option.
        let end = if host.starts_with('-') { "-- " } else { "" };
        format!("ssh -t {end}{} {}", shell_word(host), shell_word(&line))
    }
}

/// The word with a `~` at its beginning left to the shell.
fn at_home(value: &str) -> String {
    match value.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", shell_word(rest)),
        None if value == "~" => "\"$HOME\"".to_owned(),
        None => shell_word(value),
    }
}

/// `text` quoted as one word of a POSIX shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(kind: AgentKind) -> AgentProfile {
        AgentProfile {
            name: "x".into(),
            kind,
            argv: Vec::new(),
            model: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            bounds: regatta_core::bounds::Bounds::default(),
        }
    }

    #[test]
    fn each_agent_is_gone_on_with_in_its_own_way() {
        let line = |kind| {
            by_hand(&profile(kind), "S-1", Some("m-1"), &BTreeMap::new()).map(|by_hand| by_hand.line("/l/a"))
        };
        assert_eq!(line(AgentKind::Claude).as_deref(), Some("cd /l/a && claude --resume S-1"));
        assert_eq!(line(AgentKind::Codex).as_deref(), Some("cd /l/a && codex resume S-1 --model m-1"));
        assert_eq!(line(AgentKind::Gemini).as_deref(), Some("cd /l/a && gemini --resume S-1"));
        assert_eq!(line(AgentKind::Opencode).as_deref(), Some("cd /l/a && opencode --session S-1"));
        assert_eq!((line(AgentKind::Command), line(AgentKind::Sim)), (None, None));
    }

    #[test]
    fn on_another_machine_the_line_is_one_word_of_ssh() {
        let mut claude = profile(AgentKind::Claude);
        claude.env.insert("CLAUDE_CONFIG_DIR".into(), "~/my claude".into());
        let by_hand = by_hand(&claude, "S-1", None, &BTreeMap::new()).unwrap();
        assert_eq!(
            by_hand.line_at("big-1", "/l/a"),
            r#"ssh -t big-1 'cd /l/a && CLAUDE_CONFIG_DIR="$HOME"/'\''my claude'\'' claude --resume S-1'"#
        );
        assert!(by_hand.line_at("-oProxyCommand=x", "/l").starts_with("ssh -t -- '-oProxyCommand=x' 'cd"));
    }

    #[test]
    fn words_stay_words_and_only_places_are_shown() {
        let mut claude = profile(AgentKind::Claude);
        claude.argv = vec!["/opt/my claude/bin".into()];
        claude.env.insert("CLAUDE_CONFIG_DIR".into(), "/profile".into());
        claude.env.insert("ANTHROPIC_API_KEY".into(), "sk-1".into());
        let task_env = BTreeMap::from([("CLAUDE_CONFIG_DIR".to_owned(), "/it's mine".to_owned())]);
        let line = by_hand(&claude, "$(reboot)", None, &task_env).unwrap().line("/l; rm -rf ~");
        assert_eq!(
            line,
            r"cd '/l; rm -rf ~' && CLAUDE_CONFIG_DIR='/it'\''s mine' '/opt/my claude/bin' --resume '$(reboot)'"
        );
        assert_eq!(shell_word(""), "''");
    }
}
