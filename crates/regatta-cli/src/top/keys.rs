//! Maps keys to actions: a pure function, and the table that `?` and the last line show.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen::{Change, Mode, View};

/// The action that a key requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Suspend,
    Redraw,
    /// By this many lines.
    Move(i32),
    /// By half a screen, up or down.
    Page(i32),
    First,
    Last,
    /// To the next or previous pane or column.
    Pane(i32),
    Show(View),
    /// The board by review, or by state again.
    ByReview,
    Detail,
    Diff,
    Logs,
    /// Closes what is open, or clears the filter.
    Back,
    /// To the next task that needs a person.
    NextNeeded,
    Help,
    /// Starts or continues typing.
    Filter,
    Type(char),
    Rub,
    RubWord,
    Accept,
    /// Type a prompt for the task's agent.
    Prompt,
    /// Type a message to a member or an agent.
    Message,
    /// Change a task.
    Change(Change),
    Yes,
    No,
}

/// One line of the help.
pub(super) struct Key {
    pub(super) keys: &'static str,
    pub(super) what: &'static str,
    /// Whether it changes something.
    pub(super) changes: bool,
}

const fn key(keys: &'static str, what: &'static str) -> Key {
    Key { keys, what, changes: false }
}

const fn change(keys: &'static str, what: &'static str) -> Key {
    Key { keys, what, changes: true }
}

/// All keys, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    key("j k ↓ ↑", "next and previous line"),
    key("g G Home End", "first and last line"),
    key("^d ^u PgDn PgUp", "half a screen down and up"),
    key("Tab ⇧Tab ← →", "next and previous pane, or column"),
    key("1–6 b", "lanes, board, train, crew, events, cost; board by review"),
    key("Enter", "everything about the task: attempts, verdicts, evidence"),
    key("l", "its whole transcript"),
    key("d", "what it changed"),
    key("n", "next task that needs you"),
    key("/", "only tasks with these words in id, title, state or agent"),
    key("Esc", "back; clear the filter"),
    change("s", "send: a follow-up to its agent"),
    change("m", "message: to the inbox of its agent or of the member"),
    change("t", "retry: in its lane, with what went wrong as guidance"),
    change("p u", "park: wait until it is unparked; unpark"),
    change("C", "cancel: stop its agent"),
    change("R", "requeue: start over in a fresh lane"),
    change("L", "land: put its work into the train"),
    change("X", "retire its lane"),
    key("? ^l ^z", "this help; redraw; suspend"),
    key("q ^c", "quit; agents keep running"),
];

/// The keys in the last line, with one word each: first those that only show, then those that change.
pub(super) const LOOKING: [(&str, &str); 4] =
    [("Enter", "detail"), ("l", "logs"), ("d", "diff"), ("/", "filter")];
pub(super) const CHANGING: [(&str, &str, Change); 6] = [
    ("t", "retry", Change::Retry),
    ("C", "cancel", Change::Cancel),
    ("R", "requeue", Change::Requeue),
    ("L", "land", Change::Land),
    ("u", "unpark", Change::Unpark),
    ("p", "park", Change::Park),
];

/// The pressed keys. Over a slow line Esc and the next key may arrive as one; no key here uses Alt.
pub(super) fn presses(key: KeyEvent) -> Vec<KeyEvent> {
    if key.modifiers.contains(KeyModifiers::ALT) {
        vec![KeyCode::Esc.into(), KeyEvent { modifiers: key.modifiers - KeyModifiers::ALT, ..key }]
    } else {
        vec![key]
    }
}

/// What a key does in this mode. In read-only mode, keys that would change something do nothing.
pub(super) fn action(mode: &Mode, key: KeyEvent, read_only: bool) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control {
        match key.code {
            KeyCode::Char('c') => return Some(Action::Quit),
            KeyCode::Char('z') => return Some(Action::Suspend),
            KeyCode::Char('l') => return Some(Action::Redraw),
            _ => {}
        }
    }
    match mode {
        Mode::Confirm(..) => confirm(key.code),
        Mode::Filter | Mode::Prompt(_) => typing(key.code, control),
        Mode::Help => match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('?' | 'q') => Some(Action::Back),
            code => moving(code, control),
        },
        Mode::Page => match key.code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('q') => Some(Action::Back),
            KeyCode::Char(' ') => Some(Action::Page(1)),
            KeyCode::Char('?') => Some(Action::Help),
            code => moving(code, control)
                .or_else(|| opening(code, control))
                .or_else(|| changing(code, control, read_only)),
        },
        Mode::Browse => match key.code {
            KeyCode::Char('q') if !control => Some(Action::Quit),
            KeyCode::Esc => Some(Action::Back),
            KeyCode::Char('?') => Some(Action::Help),
            KeyCode::Char('/') => Some(Action::Filter),
            KeyCode::Char('n') if !control => Some(Action::NextNeeded),
            KeyCode::Char('b') if !control => Some(Action::ByReview),
            KeyCode::Char(digit @ '1'..='9') => {
                View::ALL.get(usize::from(digit as u8 - b'1')).map(|view| Action::Show(*view))
            }
            KeyCode::Tab | KeyCode::Right => Some(Action::Pane(1)),
            KeyCode::BackTab | KeyCode::Left => Some(Action::Pane(-1)),
            code => moving(code, control)
                .or_else(|| opening(code, control))
                .or_else(|| changing(code, control, read_only)),
        },
    }
}

fn moving(code: KeyCode, control: bool) -> Option<Action> {
    Some(match (code, control) {
        (KeyCode::Char('d'), true) | (KeyCode::PageDown, _) | (KeyCode::Char('f'), true) => Action::Page(1),
        (KeyCode::Char('u' | 'b'), true) | (KeyCode::PageUp, _) => Action::Page(-1),
        (KeyCode::Char('j'), false) | (KeyCode::Down, _) | (KeyCode::Char('n'), true) => Action::Move(1),
        (KeyCode::Char('k'), false) | (KeyCode::Up, _) | (KeyCode::Char('p'), true) => Action::Move(-1),
        (KeyCode::Char('g'), false) | (KeyCode::Home, _) => Action::First,
        (KeyCode::Char('G'), false) | (KeyCode::End, _) => Action::Last,
        _ => return None,
    })
}

fn opening(code: KeyCode, control: bool) -> Option<Action> {
    Some(match code {
        KeyCode::Enter => Action::Detail,
        KeyCode::Char('l') if !control => Action::Logs,
        KeyCode::Char('d') if !control => Action::Diff,
        _ => return None,
    })
}

fn changing(code: KeyCode, control: bool, read_only: bool) -> Option<Action> {
    if control || read_only {
        return None;
    }
    Some(Action::Change(match code {
        KeyCode::Char('s') => return Some(Action::Prompt),
        KeyCode::Char('m') => return Some(Action::Message),
        KeyCode::Char('t') => Change::Retry,
        KeyCode::Char('p') => Change::Park,
        KeyCode::Char('u') => Change::Unpark,
        KeyCode::Char('C') => Change::Cancel,
        KeyCode::Char('R') => Change::Requeue,
        KeyCode::Char('L') => Change::Land,
        KeyCode::Char('X') => Change::Retire,
        _ => return None,
    }))
}

fn confirm(code: KeyCode) -> Option<Action> {
    // Only a plain yes counts: Enter may have been meant for something else.
    match code {
        KeyCode::Char('y' | 'Y') => Some(Action::Yes),
        KeyCode::Char(_) | KeyCode::Esc | KeyCode::Enter => Some(Action::No),
        _ => None,
    }
}

fn typing(code: KeyCode, control: bool) -> Option<Action> {
    Some(match code {
        KeyCode::Enter => Action::Accept,
        KeyCode::Esc => Action::Back,
        KeyCode::Backspace => Action::Rub,
        KeyCode::Char('w' | 'u') if control => Action::RubWord,
        KeyCode::Char(c) if !control => Action::Type(c),
        KeyCode::Down => Action::Move(1),
        KeyCode::Up => Action::Move(-1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::addressee::Addressee;
    use regatta_core::id::TaskId;

    fn press(text: &str) -> KeyEvent {
        let (code, modifiers) = match text {
            "Esc" => (KeyCode::Esc, KeyModifiers::NONE),
            "Enter" => (KeyCode::Enter, KeyModifiers::NONE),
            "Tab" => (KeyCode::Tab, KeyModifiers::NONE),
            "⇧Tab" => (KeyCode::BackTab, KeyModifiers::SHIFT),
            "Backspace" => (KeyCode::Backspace, KeyModifiers::NONE),
            "Home" => (KeyCode::Home, KeyModifiers::NONE),
            "End" => (KeyCode::End, KeyModifiers::NONE),
            "PgDn" => (KeyCode::PageDown, KeyModifiers::NONE),
            "PgUp" => (KeyCode::PageUp, KeyModifiers::NONE),
            "↓" => (KeyCode::Down, KeyModifiers::NONE),
            "↑" => (KeyCode::Up, KeyModifiers::NONE),
            "←" => (KeyCode::Left, KeyModifiers::NONE),
            "→" => (KeyCode::Right, KeyModifiers::NONE),
            text => match (text.chars().next().unwrap(), text.chars().nth(1)) {
                ('^', Some(c)) => (KeyCode::Char(c), KeyModifiers::CONTROL),
                (c, _) => (KeyCode::Char(c), KeyModifiers::NONE),
            },
        };
        KeyEvent::new(code, modifiers)
    }

    fn changes(action: Option<&Action>) -> bool {
        matches!(action, Some(Action::Change(_) | Action::Prompt | Action::Message))
    }

    #[test]
    fn each_mode_has_its_keys() {
        let check = |mode: &Mode, key: &str, expected: Option<Action>| {
            assert_eq!(action(mode, press(key), false), expected, "{key} in {mode:?}");
        };
        check(&Mode::Browse, "j", Some(Action::Move(1)));
        check(&Mode::Browse, "3", Some(Action::Show(View::Train)));
        check(&Mode::Browse, "9", None);
        check(&Mode::Browse, "b", Some(Action::ByReview));
        check(&Mode::Browse, "^b", Some(Action::Page(-1)));
        check(&Mode::Browse, "d", Some(Action::Diff));
        check(&Mode::Browse, "^d", Some(Action::Page(1)));
        check(&Mode::Browse, "C", Some(Action::Change(Change::Cancel)));
        check(&Mode::Browse, "c", None);
        check(&Mode::Browse, "q", Some(Action::Quit));
        check(&Mode::Page, "q", Some(Action::Back));
        check(&Mode::Page, "C", Some(Action::Change(Change::Cancel)));
        check(&Mode::Filter, "q", Some(Action::Type('q')));
        check(&Mode::Filter, "C", Some(Action::Type('C')));
        check(&Mode::Filter, "Enter", Some(Action::Accept));
        check(&Mode::Browse, "s", Some(Action::Prompt));
        check(&Mode::Browse, "m", Some(Action::Message));
        check(&Mode::Page, "m", Some(Action::Message));
        let prompt = Mode::Prompt(Addressee::Agent(TaskId::parse("a").unwrap()));
        check(&prompt, "C", Some(Action::Type('C')));
        check(&prompt, "Esc", Some(Action::Back));
        check(&Mode::Filter, "^w", Some(Action::RubWord));
        let asked = Mode::Confirm(Change::Cancel, TaskId::parse("a").unwrap());
        check(&asked, "y", Some(Action::Yes));
        for no in ["n", "q", "C", "Esc", "Enter", "j"] {
            check(&asked, no, Some(Action::No));
        }
        for mode in [Mode::Browse, Mode::Page, Mode::Filter, Mode::Help, asked] {
            check(&mode, "^c", Some(Action::Quit));
        }
    }

    #[test]
    fn esc_and_a_key_at_once_are_both() {
        let alt = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT);
        assert_eq!(presses(alt), [press("Esc"), press("q")]);
        assert_eq!(presses(press("j")), [press("j")]);
    }

    #[test]
    fn where_nothing_may_be_changed_no_key_does() {
        for c in (b'!'..=b'~').map(char::from) {
            for mode in [Mode::Browse, Mode::Page] {
                let found = action(&mode, press(&c.to_string()), true);
                assert!(!changes(found.as_ref()), "{c}: {found:?}");
            }
        }
    }

    #[test]
    fn every_key_of_the_help_does_something() {
        for key in KEYS {
            for name in key.keys.split_whitespace().filter(|name| *name != "1–6") {
                let found = action(&Mode::Browse, press(name), false);
                assert!(found.is_some(), "{name} does nothing");
                assert_eq!(changes(found.as_ref()), key.changes, "{name}");
                if key.changes {
                    assert_eq!(action(&Mode::Browse, press(name), true), None, "{name}");
                }
            }
        }
    }
}
