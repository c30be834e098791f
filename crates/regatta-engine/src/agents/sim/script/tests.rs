use super::*;

fn one(line: &str) -> Step {
    parse(&format!("```sim\n{line}\n```")).unwrap().remove(0)
}

#[test]
fn every_instruction_is_read() {
    let s = str::to_owned;
    let cases = [
        ("say hello  there", Step::Say(s("hello  there"))),
        ("think 20", Step::Think(20)),
        (r"write a/b.txt one\ntwo\\n\q", Step::Write { path: s("a/b.txt"), text: s("one\ntwo\\n\\q") }),
        ("append a x", Step::Append { path: s("a"), text: s("x") }),
        ("edit a old words => new", Step::Edit { path: s("a"), old: s("old words"), new: s("new") }),
        ("edit a old =>", Step::Edit { path: s("a"), old: s("old"), new: s("") }),
        ("delete a", Step::Delete(s("a"))),
        (
            r#"run git -c 'a b' "c \"d\"" e\ f"#,
            Step::Run(["git", "-c", "a b", "c \"d\"", "e f"].map(s).to_vec()),
        ),
        ("commit a message", Step::Commit(s("a message"))),
        ("tool Read src/lib.rs", Step::Tool { name: s("Read"), summary: s("src/lib.rs") }),
        ("tool Read", Step::Tool { name: s("Read"), summary: s("") }),
        ("cost 0.25", Step::Cost(0.25)),
        ("tokens 100 20", Step::Tokens(100, 20)),
        ("report pass all well", Step::Report { verdict: s("pass"), summary: s("all well") }),
        ("progress half way", Step::Progress(s("half way"))),
        ("stuck no key", Step::Stuck(s("no key"))),
        ("marker PASS done", Step::Marker { verdict: s("PASS"), summary: s("done") }),
        ("json-result block no", Step::JsonResult { verdict: s("block"), summary: s("no") }),
        ("lie", Step::Lie),
        ("fail-until 3", Step::FailUntil(3)),
        ("limit-until 60", Step::LimitUntil(60)),
        ("limit-once 1", Step::LimitOnce(1)),
        ("exit 3", Step::Exit(3)),
        ("crash", Step::Crash),
        ("hang", Step::Hang),
        ("ignore-term", Step::IgnoreTerm),
        ("spawn-orphan 5", Step::SpawnOrphan(5)),
        ("flood 1000", Step::Flood(1000)),
    ];
    for (line, step) in cases {
        assert_eq!(one(line), step, "{line}");
    }
}

#[test]
fn without_a_fence_prose_is_passed_over() {
    let steps = parse("Please do this:\nsay hi\nexit gracefully, and think hard\n\nwrite\nexit 0").unwrap();
    assert_eq!(steps, [Step::Say("hi".into()), Step::Exit(0)]);
    assert_eq!(parse("").unwrap(), []);
}

#[test]
fn with_a_fence_only_the_fence_counts() {
    let steps = parse("say no\n```sim\n\n# a comment\nsay yes\n```\nsay no\n  ```sim\n  say too\n").unwrap();
    assert_eq!(steps, [Step::Say("yes".into()), Step::Say("too".into())]);
}

#[test]
fn a_bad_line_in_a_fence_is_named_with_its_place() {
    for (line, why) in [
        ("dance", "no such instruction"),
        ("think long", "expected a number"),
        ("write only-a-path", "expected PATH TEXT"),
        ("edit a b", "expected PATH OLD => NEW"),
        ("run", "expected a program"),
        ("run 'x", "a quote is not closed"),
        ("cost -1", "expected dollars"),
        ("lie twice", "`lie` takes no argument"),
    ] {
        let error = parse(&format!("# Task\n```sim\nsay hi\n{line}\n```")).unwrap_err();
        assert_eq!(error.to_string(), format!("line 4 of the prompt: {why}: `{line}`"));
    }
}
