//! The help of the command line: commands in groups, an example for each, and the global options in one place.

use clap::Command;

/// A heading and its commands, each with an example.
struct Group {
    heading: &'static str,
    commands: &'static [(&'static str, &'static str)],
}

/// Every visible command, in the order of the help.
const GROUPS: &[Group] = &[
    Group {
        heading: "Start",
        commands: &[
            ("init", "regatta init"),
            ("run", "regatta run plan.md"),
            ("enqueue", "regatta enqueue tasks/fix-login.md"),
            ("add", "regatta add \"Fix the flaky test in auth\" --land"),
            ("plan", "regatta plan \"Support dark mode\""),
            ("approve", "regatta approve PLAN-001"),
            ("reject", "regatta reject PLAN-001 \"split the database change\""),
            ("new", "regatta new fix-login"),
            ("validate", "regatta validate plan.md"),
            ("daemon", "regatta daemon start"),
            ("demo", "regatta demo"),
        ],
    },
    Group {
        heading: "Watch",
        commands: &[
            ("list", "regatta list --status active"),
            ("status", "regatta status fix-login"),
            ("top", "regatta top"),
            ("logs", "regatta logs -f fix-login"),
            ("events", "regatta events -f"),
            ("diff", "regatta diff fix-login"),
            ("wait", "regatta wait fix-login --timeout 1h"),
            ("radar", "regatta radar"),
            ("summary", "regatta summary"),
            ("cost", "regatta cost"),
            ("report", "regatta report"),
        ],
    },
    Group {
        heading: "Steer",
        commands: &[
            ("send", "regatta send fix-login \"Use the existing session store\""),
            ("broadcast", "regatta broadcast \"The API moved to v2\""),
            ("attach", "regatta attach fix-login"),
            ("cancel", "regatta cancel fix-login"),
            ("retry", "regatta retry fix-login"),
            ("requeue", "regatta requeue fix-login"),
            ("park", "regatta park fix-login --until 07:30"),
            ("unpark", "regatta unpark fix-login"),
            ("reclaim", "regatta reclaim"),
            ("assign", "regatta assign big-1 fix-login"),
        ],
    },
    Group {
        heading: "Land",
        commands: &[
            ("land", "regatta land fix-login"),
            ("pr", "regatta pr fix-login --draft"),
            ("merge", "regatta merge fix-login"),
            ("cleanup", "regatta cleanup --dry-run"),
            ("lane", "regatta lane list"),
            ("salvage", "regatta salvage list"),
        ],
    },
    Group {
        heading: "Crew",
        commands: &[
            ("crew", "regatta crew register Ada --role developer"),
            ("task", "regatta task push \"Review the schema\""),
            ("msg", "regatta msg send Ada \"The schema is ready\""),
            ("ctx", "regatta ctx set api-version 2"),
        ],
    },
    Group {
        heading: "Setup",
        commands: &[
            ("doctor", "regatta doctor"),
            ("sandbox", "regatta sandbox show"),
            ("hub", "regatta hub init ssh://build-1/srv/shop.git"),
            ("store", "regatta store copy sqlite postgres://regatta@db.example/boats"),
            ("node", "regatta node list"),
            ("trust", "regatta trust"),
            ("config", "regatta config"),
            ("profiles", "regatta profiles"),
            ("repo", "regatta repo add web ../web --depends-on shared"),
            ("setup", "regatta setup claude"),
            ("mcp", "regatta mcp --http 7420"),
            ("completions", "regatta completions bash"),
            ("version", "regatta version"),
        ],
    },
    Group {
        heading: "For agents",
        commands: &[
            ("done", "regatta done --verdict pass --summary \"The login works\""),
            ("progress", "regatta progress \"running the tests\""),
            ("stuck", "regatta stuck \"Which database may I use?\""),
            ("parcel", "regatta parcel done --verdict pass --summary \"The login works\""),
        ],
    },
];

/// The maximum line width of the command list.
const WIDTH: usize = 100;

/// Puts the commands into groups, and appends an example to the help of each.
pub(crate) fn arrange(mut command: Command) -> Command {
    let groups = groups(&command);
    for (name, example) in GROUPS.iter().flat_map(|group| group.commands) {
        command = command.mut_subcommand(name, |sub| {
            sub.after_help(format!("Example:\n  {example}")).disable_help_subcommand(true)
        });
    }
    command.before_help(groups).help_template(
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
    )
}

fn groups(command: &Command) -> String {
    let names = GROUPS.iter().flat_map(|group| group.commands).map(|(name, _)| name.len());
    let column = names.max().unwrap_or_default() + 4;
    let mut text = String::new();
    for group in GROUPS {
        text.push_str(&format!("{}:\n", group.heading));
        for (name, _) in group.commands {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&entry(name, &about, column));
        }
        text.push('\n');
    }
    text.push_str("`regatta help COMMAND` explains a command.");
    text
}

fn entry(name: &str, about: &str, column: usize) -> String {
    let mut lines = vec![String::new()];
    for word in about.split_whitespace() {
        let last = lines.last_mut().expect("there is a first line");
        if !last.is_empty() && column + last.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
        } else if last.is_empty() {
            last.push_str(word);
        } else {
            last.push_str(&format!(" {word}"));
        }
    }
    let mut text = format!("  {name:<width$}{}\n", lines[0], width = column - 2);
    for line in &lines[1..] {
        text.push_str(&format!("{:column$}{line}\n", ""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::cli::definition();
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.commands).map(|(name, _)| *name).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn every_example_is_understood() {
        for (name, example) in GROUPS.iter().flat_map(|group| group.commands) {
            let mut words = Vec::new();
            for (n, part) in example.split('"').enumerate() {
                match n % 2 {
                    0 => words.extend(part.split_whitespace().map(str::to_owned)),
                    _ => words.push(part.to_owned()),
                }
            }
            assert!(words.get(1).is_some_and(|word| word == name), "{example}");
            if let Err(error) = crate::cli::definition().try_get_matches_from(&words) {
                panic!("{example}: {error}");
            }
        }
    }
}
