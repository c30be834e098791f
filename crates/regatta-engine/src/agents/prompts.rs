//! Lines that ask a user for something: a trust question, a login, a key to press. Each was observed, or is in the
//! program's own source.

use regatta_core::config::AgentKind;
const TRUST: &str = "asks whether to trust this directory";
const LOGIN: &str = "asks for a login";
const ANSWER: &str = "asks a question";

/// Questions that any program may ask.
const COMMON: [(&str, &str); 19] = [
    ("press enter to continue", ANSWER),
    ("press enter to open", LOGIN),
    ("press any key", ANSWER),
    ("press return to continue", ANSWER),
    ("hit enter to", ANSWER),
    ("[y/n]", ANSWER),
    ("(y/n)", ANSWER),
    ("[yes/no]", ANSWER),
    ("(yes/no", ANSWER),
    ("password for ", LOGIN),
    ("enter passphrase for", LOGIN),
    ("username for 'http", LOGIN),
    ("enter the code", LOGIN),
    ("first copy your one-time code", LOGIN),
    ("/login/device", LOGIN),
    ("/devicelogin", LOGIN),
    ("open this url in your browser", LOGIN),
    ("open the following url in your browser", LOGIN),
    ("visit this url to authorize", LOGIN),
];

/// Questions of one kind of agent.
fn own(kind: AgentKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        AgentKind::Claude => &[
            ("do you trust the files", TRUST),
            ("please run /login", LOGIN),
            ("select login method", LOGIN),
            ("paste code here", LOGIN),
            ("browser didn't open? use the url", LOGIN),
        ],
        AgentKind::Codex => &[
            ("do you trust the contents of this directory", TRUST),
            ("sign in with chatgpt", LOGIN),
            ("auth.openai.com/", LOGIN),
            ("run `codex login`", LOGIN),
        ],
        AgentKind::Gemini => &[
            ("do you trust this folder", TRUST),
            ("do you trust the files", TRUST),
            ("enter the authorization code", LOGIN),
            ("please visit the following url to authorize", LOGIN),
            ("accounts.google.com/o/oauth2", LOGIN),
            ("waiting for authentication", LOGIN),
            ("please set an auth method", LOGIN),
        ],
        AgentKind::Opencode => &[("opencode auth login", LOGIN), ("select provider", LOGIN)],
        AgentKind::Command | AgentKind::Sim => &[],
    }
}

/// What the line asks for, if it is a question.
pub(super) fn prompt(kind: AgentKind, line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let asked = own(kind).iter().chain(&COMMON).find(|(sign, _)| line.contains(sign));
    let is_password = || ["password:", "passphrase:"].iter().any(|sign| line.trim_end().ends_with(sign));
    asked.map(|(_, what)| *what).or_else(|| is_password().then_some(LOGIN))
}
