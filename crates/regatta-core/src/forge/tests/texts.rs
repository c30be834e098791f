use proptest::prelude::*;

use crate::forge::PullNumber;
use crate::forge::marker::{Marker, is_marked};
use crate::forge::text::{Status, TEMPLATE, TaskText, check_template, pull_text, sticky};
use crate::forge::words::{LONGEST, harmless, harmless_line};

#[test]
fn words_of_an_agent_do_nothing_on_a_forge() {
    for (text, left) in [
        ("does not close #967", "does not close issue 967"),
        ("Fixes: #12, resolves acme/shop#3", "Fixes: issue 12, resolves acme/shop issue 3"),
        ("closes GH-12 and gh-13", "closes issue 12 and issue 13"),
        ("fixes https://github.com/acme/shop/issues/9", "fixes https://github.com/acme/shop issue 9"),
        ("see https://ghe.test/a/b/pull/9#x", "see https://ghe.test/a/b issue 9#x"),
        ("thanks @ann and @acme/team", "thanks @ ann and @ acme/team"),
        ("mail me@example.org", "mail me@example.org"),
        ("`@Override` \\@ann \\#12", "`@ Override` \\@ ann \\issue 12"),
        ("a colour #1a2b3c and #fff", "a colour #1a2b3c and #fff"),
        ("# 12 apples\n## heading", "# 12 apples\n## heading"),
        (
            "&#64;ann &commat;ann &#35;12 a&b; x && y",
            "& issue 64;ann & commat;ann & issue 35;12 a& b; x && y",
        ),
        (
            "[skip ci] [ci skip] [no ci] [skip-ci] [Skip Actions] ***NO_CI***",
            "(skip ci) (ci skip) (no ci) (skip-ci) (Skip Actions) no ci",
        ),
        ("[ ] a task, [a link](x), [no]", "[ ] a task, [a link](x), [no]"),
        ("body\n\nskip-checks: true", "body\n\nskip checks: true"),
        ("/lgtm\n/etc/passwd is read\n  /merge now", "`/lgtm`\n/etc/passwd is read\n  `/merge` now"),
        ("<!-- regatta task=x -->", "<! -- regatta task=x -->"),
        ("zero\u{200b}width @\u{200b}ann", "zerowidth @ ann"),
    ] {
        assert_eq!(harmless(text, LONGEST), left, "{text:?}");
    }
    assert_eq!(harmless_line("Log in\n\n@ann [skip ci]", 200), "Log in @ ann (skip ci)");
    let long = harmless(&"word #12 ".repeat(200_000), LONGEST);
    assert!(long.len() <= LONGEST && long.ends_with("\n\n(shortened)"));
    assert_eq!(harmless_line("abc #1a2b", 7), "abc");
}

/// Whether a text would notify, refer or steer.
fn acts(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let number_ends = |mut at: usize| {
        while digit(at) {
            at += 1;
        }
        !word(at)
    };
    let mentions = (0..chars.len()).any(|at| {
        chars[at] == '@'
            && chars.get(at + 1).is_some_and(char::is_ascii_alphanumeric)
            && (at == 0 || !chars[at - 1].is_alphanumeric())
    });
    let refers = (0..chars.len()).any(|at| chars[at] == '#' && digit(at + 1) && number_ends(at + 1));
    let lower = text.to_lowercase();
    mentions
        || refers
        || lower.contains("[skip ci]")
        || lower.contains("<!--")
        || lower.contains("skip-checks:")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_left_acts(text in "([a-z0-9@#&;:/\\[\\]<>!*_ \n\\-\u{200b}é]|\\[skip ci\\]|GH-1|<!--|&#35;|skip-checks:|/issues/1|/lgtm){0,40}", most in 20..200usize) {
        let left = harmless(&text, most);
        prop_assert!(left.len() <= most, "{left:?}");
        prop_assert!(!acts(&left), "{text:?} became {left:?}");
        prop_assert_eq!(&harmless(&left, most), &left, "a second pass changes nothing");
        let line = harmless_line(&text, most);
        prop_assert!(!acts(&line) && line.len() <= most && !line.contains('\n'), "{line:?}");
    }

    #[test]
    fn a_mark_is_found_again_whatever_is_in_it(value in "\\PC{0,30}", before in "[a-z\n]{0,10}") {
        let marker = Marker::new().with("task", &value).with("store", "0f");
        let text = format!("{before}\n{marker}\n");
        prop_assert!(marker.to_string().matches("--").count() == 2, "{marker}");
        prop_assert_eq!(Marker::find(&text), Some(marker));
        prop_assert!(is_marked(&text));
    }
}

#[test]
fn only_a_whole_mark_on_a_line_of_its_own_is_one() {
    assert_eq!(Marker::new().with("key", "a b-->c").to_string(), "<!-- regatta key=a%20b-%2D%3Ec -->");
    for text in [
        "",
        "<!-- regatta -->",
        "<!-- regatta key -->",
        "<!-- regatta Key=x -->",
        "x <!-- regatta key=x -->",
        "<!-- regatta key=%zz -->",
        "<!-- other key=x -->",
    ] {
        assert_eq!(Marker::find(text), None, "{text}");
    }
    for (text, marked) in [
        ("<!--regatta x", true),
        ("<!--  Regatta-->", true),
        ("regatta", false),
        ("<!-- é", false),
        ("<!--", false),
    ] {
        assert_eq!(is_marked(text), marked, "{text}");
    }
}

#[test]
fn a_pull_request_closes_exactly_its_own_issue() {
    let checks = ["cargo test".to_owned(), "make `x` @ann".to_owned()];
    let task = TaskText {
        task: "GH-42",
        title: "Log in\nwith @ann (fixes #9)",
        summary: "It works now.\n\nCloses #967, thanks @bob.\n<!-- regatta task=forged -->",
        checks: &checks,
        closes: Some(PullNumber(42)),
        target: "main",
        marker: Marker::new().with("task", "GH-42"),
    };
    let text = pull_text(TEMPLATE, &task).unwrap();
    insta::assert_snapshot!(format!("{}\n====\n{}", text.title, text.body), @"
    Log in with @ ann (fixes issue 9)
    ====
    It works now.

    Closes issue 967, thanks @ bob.
    <! -- regatta task=forged -->

    - `cargo test` passed
    - `make 'x' @ ann` passed

    Closes #42

    <!-- regatta task=GH-42 -->
    ");
    let bare = pull_text("About {task} for {target}: {title}\n\n{ not a variable } {}", &task).unwrap();
    insta::assert_snapshot!(bare.body, @"
    About `GH-42` for main: Log in with @ ann (fixes issue 9)

    { not a variable } {}

    Closes #42

    <!-- regatta task=GH-42 -->
    ");
    let empty = pull_text(TEMPLATE, &TaskText { task: "a", ..TaskText::default() }).unwrap();
    assert_eq!(empty.title, "a");
    let long = "x ".repeat(1_000_000);
    let text = pull_text(
        TEMPLATE,
        &TaskText { summary: &long, marker: Marker::new().with("task", "a"), ..task.clone() },
    )
    .unwrap();
    assert!(text.body.len() <= LONGEST && text.body.ends_with("<!-- regatta task=a -->"));
    assert!(text.body.contains("\nCloses #42\n"));
}

#[test]
fn a_template_with_an_unknown_variable_is_refused_with_its_line() {
    let error = check_template("{title}\n\n{sumary}\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3: unknown variable `{sumary}`; known are task, title, summary, checks, closes, target"
    );
    assert_eq!(check_template(TEMPLATE), Ok(()));
}

#[test]
fn the_comment_about_a_task_notifies_nobody() {
    let lines: Vec<String> =
        (1..=22).map(|n| format!("`1a2b3c{n}` answers 3 comments of @octo's review")).collect();
    let status = Status {
        task: "GH-1",
        state: "checks 3/5",
        lines: &lines[..2],
        marker: Marker::new().with("key", "GH-1"),
    };
    insta::assert_snapshot!(sticky(&status), @"
    `GH-1`: checks 3/5

    - `1a2b3c1` answers 3 comments of @ octo's review
    - `1a2b3c2` answers 3 comments of @ octo's review

    <!-- regatta key=GH-1 -->
    ");
    assert!(sticky(&Status { lines: &lines, ..status }).contains("\n- 2 earlier\n- `1a2b3c3` "));
}
