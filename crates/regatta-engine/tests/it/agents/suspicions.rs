//! What an agent prints and the time in, suspicions out.

use std::time::Duration;

use regatta_core::config::{AgentKind, WatchSettings};
use regatta_core::suspicion::Sign;
use regatta_engine::agents::{AgentEvent, News, Suspicions, decoder};

use super::transcripts::transcripts;

const SECOND: Duration = Duration::from_secs(1);

fn signs(news: &[News]) -> Vec<String> {
    let word = |news: &News| match news {
        News::Suspected { sign, .. } => format!("+{sign}"),
        News::WentOn { sign } => format!("-{sign}"),
    };
    news.iter().map(word).collect()
}

/// Plays a script, one line of output a second: what was told, and after which line.
fn play(kind: AgentKind, rules: &WatchSettings, lines: &[&str]) -> Vec<(usize, String)> {
    let (mut decoder, mut watch) = (decoder(kind), Suspicions::new(rules, kind, false, []));
    let mut told = Vec::new();
    let mut now = Duration::ZERO;
    for (n, line) in lines.iter().enumerate() {
        let mut news = match line.split_once(' ') {
            // `wait 30` is thirty seconds of nothing, looked at whenever that is asked for.
            Some(("wait", seconds)) => {
                let until = now + SECOND * seconds.parse::<u32>().unwrap();
                let (mut news, mut looks) = (Vec::new(), 0);
                while let Some(at) = watch.next_look(decoder.open_tools() > 0).filter(|at| *at <= until) {
                    now = now.max(at);
                    news.extend(watch.look(now, decoder.open_tools() > 0, [b"", b""]));
                    looks += 1;
                    assert!(looks < 50, "it looks again and again");
                }
                now = until;
                news
            }
            Some(("stderr", line)) => watch.stderr(line.as_bytes(), now),
            _ => watch.heard(&decoder.line(line.as_bytes()), now),
        };
        now += SECOND;
        news.extend(watch.look(now, decoder.open_tools() > 0, [b"", b""]));
        told.extend(signs(&news).into_iter().map(|sign| (n, sign)));
    }
    told
}

fn check(lines: &[&str], expected: &[(usize, &str)]) {
    let told = play(AgentKind::Claude, &WatchSettings::default(), lines);
    let told: Vec<_> = told.iter().map(|(n, sign)| (*n, sign.as_str())).collect();
    assert_eq!(told, expected, "{lines:#?}");
}

fn call(n: usize, command: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{"command":"{command}"}}}}]}}}}"#
    )
}

fn answer(n: usize, failed: bool, words: &str) -> String {
    format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t{n}","is_error":{failed},"content":"{words}"}}]}}}}"#
    )
}

#[test]
fn no_recorded_run_is_suspected_of_anything() {
    for transcript in transcripts() {
        let stdout = String::from_utf8_lossy(&transcript.stdout).into_owned();
        let stderr: Vec<String> = transcript.stderr.lines().map(|line| format!("stderr {line}")).collect();
        let lines: Vec<&str> = stderr.iter().map(String::as_str).chain(stdout.lines()).collect();
        let told = play(transcript.kind, &WatchSettings::default(), &lines);
        assert_eq!(told, [], "{}", transcript.name);
    }
}

#[test]
fn the_same_call_counts_only_in_a_row_and_with_the_same_answer() {
    let (make, same) = (|n| call(n, "make"), |n| answer(n, true, "failed in 1.5s"));
    let script = |lines: Vec<String>, expected: &[(usize, &str)]| {
        check(&lines.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    };
    let thrice = vec![make(1), same(1), make(2), same(2), make(3), answer(3, true, "failed in 9s")];
    script(thrice.clone(), &[(5, "+same-command")]);
    let more = [thrice.clone(), vec![make(4), same(4), call(5, "ls"), answer(5, false, "x")]].concat();
    script(more, &[(5, "+same-command"), (9, "-same-command")]);
    let other = vec![make(1), same(1), make(2), answer(2, true, "failed elsewhere"), make(3), same(3)];
    script(other, &[]);
    let between =
        vec![make(1), same(1), make(2), same(2), call(3, "ls"), answer(3, false, ""), make(4), same(4)];
    script(between, &[]);
    let write = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t9","name":"Write","input":{"file_path":"a","content":"b"}}]}}"#;
    let edited =
        vec![make(1), same(1), make(2), same(2), write.to_owned(), answer(9, false, "ok"), make(3), same(3)];
    script(edited, &[]);
}

#[test]
fn silence_counts_while_no_tool_is_open_and_no_retry_was_announced() {
    let ls = call(1, "sleep 900");
    let done = answer(1, false, "");
    check(&["wait 400", "{}"], &[(0, "+silence"), (1, "-silence")]);
    check(&["{}", "wait 200", "{}", "wait 200"], &[]);
    check(&[&ls, "wait 900", &done], &[]);
    check(&[&ls, "wait 2000", &done], &[(1, "+long-tool"), (2, "-long-tool")]);
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"retry_delay_ms":200000,"error":"overloaded"}"#;
    check(&[retry, "wait 400"], &[]);
    check(&[retry, "wait 600"], &[(1, "+silence")]);
    // Once for an attempt.
    check(&["wait 400", "{}", "wait 400"], &[(0, "+silence"), (1, "-silence")]);
}

#[test]
fn a_question_is_one_only_where_nothing_follows() {
    let cases = [
        (AgentKind::Claude, "stderr Do you trust the files in this folder?"),
        (AgentKind::Claude, "Not logged in · Please run /login"),
        (AgentKind::Codex, "stderr Open this URL in your browser: https://auth.openai.com/oauth?x"),
        (AgentKind::Gemini, "stderr Enter the authorization code: "),
        (AgentKind::Gemini, "stderr Do you trust this folder?"),
        (AgentKind::Opencode, "stderr run opencode auth login"),
        (AgentKind::Command, "Press ENTER to continue..."),
        (AgentKind::Command, "Overwrite? [y/N]"),
        (AgentKind::Command, "stderr [sudo] password for ada: "),
        (
            AgentKind::Command,
            "stderr First copy your one-time code: AB-12 and open https://github.com/login/device",
        ),
    ];
    for (kind, line) in cases {
        let told = play(kind, &WatchSettings::default(), &[line, "wait 60", "stderr well"]);
        assert_eq!(told, [(1, "+prompt".to_owned()), (2, "-prompt".to_owned())], "{line}");
        assert_eq!(
            play(kind, &WatchSettings::default(), &[line, "stderr and on it goes", "wait 60"]),
            [],
            "{line}"
        );
    }
    // A model may speak of questions as much as it likes.
    let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Press Enter to continue? [y/n]"}]}}"#;
    check(&[said, "wait 60"], &[]);
}

#[test]
fn half_a_line_that_asks_is_a_question_too() {
    let mut watch = Suspicions::new(&WatchSettings::default(), AgentKind::Command, false, []);
    let mut now = Duration::ZERO;
    let mut told = Vec::new();
    for _ in 0..2 {
        now = watch.next_look(false).unwrap().max(now);
        told.extend(signs(&watch.look(now, false, [b"", b"Continue (y/n)? "])));
    }
    assert_eq!(told, ["+prompt"]);
    assert!(now < Duration::from_secs(60), "{now:?}");
}

#[test]
fn refusals_and_turns_without_a_change_count_over_the_whole_attempt() {
    let refused = "This command requires approval";
    let mut lines = Vec::new();
    for n in 0..3 {
        lines.extend([call(n, &format!("rm {n}")), answer(n, true, refused)]);
    }
    let denied: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(&denied, &[(5, "+denials")]);

    let many: Vec<String> =
        (0..40).flat_map(|n| [call(n, &format!("grep {n}")), answer(n, false, "x")]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(&many, &[(60, "+no-change")]);
    let mut reader = Suspicions::new(&WatchSettings::default(), AgentKind::Claude, true, []);
    let turns = (0..100).flat_map(|n| {
        [AgentEvent::tool(n.to_string(), "Read", "a"), AgentEvent::ended(n.to_string(), false)]
    });
    assert_eq!(
        reader.heard(&turns.collect::<Vec<_>>(), SECOND),
        [],
        "who may change nothing is not asked to"
    );
}

#[test]
fn what_another_engine_heard_is_no_news_and_what_it_raised_is_taken_back() {
    let mut watch = Suspicions::new(&WatchSettings::default(), AgentKind::Claude, false, [Sign::Silence]);
    watch.recall(&[AgentEvent::Text { text: "before".into() }]);
    assert_eq!(signs(&watch.look(SECOND * 1000, false, [b"", b""])), [""; 0], "it was told already");
    assert_eq!(signs(&watch.heard(&[], SECOND * 1001)), ["-silence"]);
}

#[test]
fn an_agent_that_never_closes_its_tools_costs_no_more_memory_than_others() {
    let mut watch = Suspicions::new(&WatchSettings::default(), AgentKind::Claude, false, []);
    for n in 0..10_000 {
        let tool = format!("{n}");
        watch
            .heard(&[AgentEvent::tool(tool.clone(), tool.clone(), "x"), AgentEvent::Denied { tool }], SECOND);
    }
    assert!(format!("{watch:?}").len() < 100_000);
}
