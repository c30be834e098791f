//! How attempts of codex, gemini and opencode end, in cases that nobody recorded.

use regatta_core::config::AgentKind;
use regatta_core::exit::{Exit, Limit};
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;
use regatta_engine::agents::{AgentEnd, AgentEvent, Ending, decoder};

use super::recorded_at;

fn end(kind: AgentKind, lines: &[&str], exit: &Exit, stderr: &str) -> Ending {
    let mut decoder = decoder(kind);
    // Whatever is printed in between changes nothing.
    for line in lines {
        decoder.line(b"\xff\xfe garbage");
        decoder.line(line.as_bytes());
        decoder.line(br#"{"type":"brand.new","x":["#);
        decoder.line(br#"{"type":"brand.new","x":[]}"#);
    }
    decoder.end(exit, stderr, recorded_at())
}

const FAILED: Exit = Exit::Exited { code: 1 };

fn codex(message: &str) -> AgentEnd {
    let message = serde_json::Value::from(message);
    let lines = [
        r#"{"type":"thread.started","thread_id":"t1"}"#.to_owned(),
        format!(r#"{{"type":"turn.failed","error":{{"message":{message}}}}}"#),
    ];
    end(AgentKind::Codex, &lines.each_ref().map(String::as_str), &FAILED, "").end
}

fn gemini(message: &str) -> AgentEnd {
    let message = serde_json::Value::from(message);
    let line =
        format!(r#"{{"type":"result","status":"error","error":{{"type":"unknown","message":{message}}}}}"#);
    end(AgentKind::Gemini, &[&line], &FAILED, "").end
}

fn opencode(error: &str) -> AgentEnd {
    let line = format!(r#"{{"type":"error","sessionID":"ses_1","error":{error}}}"#);
    end(AgentKind::Opencode, &[&line], &FAILED, "").end
}

fn kind(end: &AgentEnd) -> &'static str {
    match end {
        AgentEnd::Success => "success",
        AgentEnd::Failed { .. } => "failed",
        AgentEnd::RateLimited { limit: RateLimit::Traffic, .. } => "busy until",
        AgentEnd::RateLimited { until: Some(_), .. } => "limited until",
        AgentEnd::RateLimited { until: None, .. } => "limited",
        AgentEnd::AccountRefused { .. } => "account refused",
        AgentEnd::Budget { .. } => "budget",
        AgentEnd::Environment { .. } => "environment",
        AgentEnd::Permanent { .. } => "permanent",
        AgentEnd::NoSession => "no session",
        AgentEnd::SessionExists => "session exists",
        AgentEnd::Interrupted { .. } => "interrupted",
    }
}

#[test]
fn codex_is_judged_by_its_own_words() {
    for (message, expected) in [
        ("You’ve hit your usage limit. Try again in 1 day 2 hours 3 minutes.", "limited until"),
        ("You’ve hit your usage limit.", "limited"),
        ("Rate limit reached for gpt-5 in organization o. Please try again in 1.5s.", "environment"),
        ("Rate limit reached. Please try again in 2m0s.", "busy until"),
        ("Rate limit reached. Please try again in 20m0s.", "limited until"),
        ("unexpected status 503 Service Unavailable: upstream", "environment"),
        ("Your access token could not be refreshed. Please log out and sign in again.", "account refused"),
        ("Codex ran out of room in the model's context window. Start a new thread.", "permanent"),
        ("The 'gpt-9' model is not supported when using Codex with a ChatGPT account.", "permanent"),
        ("something new", "failed"),
    ] {
        assert_eq!(kind(&codex(message)), expected, "{message}");
    }
}

#[test]
fn gemini_is_judged_by_the_servers_words() {
    for (message, expected) in [
        (
            "[API Error: You have exhausted your capacity on this model. Your quota will reset after 4h17m26s.]",
            "limited until",
        ),
        ("[API Error: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}]", "environment"),
        ("[API Error: {\"error\":{\"code\":503,\"message\":\"try later\"}}]", "environment"),
        ("[API Error: exception TypeError: fetch failed sending request]", "environment"),
        ("[API Error: terminated]", "environment"),
        ("[API Error: connect ECONNREFUSED 127.0.0.1:443]", "environment"),
        ("[API Error: {\"error\":{\"code\":403,\"message\":\"no\"}}]", "account refused"),
        (
            "[API Error: {\"error\":{\"code\":400,\"message\":\"prompt is too long: 21 tokens > 20 maximum\"}}]",
            "permanent",
        ),
        ("something new", "failed"),
    ] {
        assert_eq!(kind(&gemini(message)), expected, "{message}");
    }
    let until = Timestamp::try_from("2026-11-15T06:29:53Z".to_owned()).unwrap();
    let limited = gemini("exhausted your capacity on this model. Your quota will reset after 4h17m26s.");
    assert!(matches!(limited, AgentEnd::RateLimited { until: Some(at), .. } if at == until), "{limited:?}");
}

#[test]
fn what_a_server_says_in_json_is_told_in_its_words() {
    let message = |end: AgentEnd| match end {
        AgentEnd::Permanent { message, .. } | AgentEnd::Environment { message } => message,
        other => panic!("{other:?}"),
    };
    let answer = r#"{"error":{"code":400,"message":"prompt is too long: 21 > 20","type":"x"}}"#;
    assert_eq!(message(codex(answer)), "prompt is too long: 21 > 20");
    assert_eq!(
        message(gemini(&format!("[API Error: {answer}]"))),
        "[API Error: prompt is too long: 21 > 20]"
    );
    // What says nothing is told as it is.
    let bare = r#"[API Error: {"error":{"code":503}}]"#;
    assert_eq!(message(gemini(bare)), bare);
    let refused = Exit::TimedOut { limit: Limit::Retries };
    let retry = r#"{"type":"error","message":"Reconnecting... 2/5 (unexpected status 401 Unauthorized)"}"#;
    let told = format!("{:?}", end(AgentKind::Codex, &[retry], &refused, "").end);
    assert!(told.contains("codex's requests were refused (authentication_failed)"), "{told}");
}

#[test]
fn claude_names_a_spent_allowance_in_more_than_one_way() {
    let claude = |words: &str| {
        let words = serde_json::Value::from(words);
        let lines = [
            format!(
                r#"{{"type":"assistant","error":"rate_limit","message":{{"content":[{{"type":"text","text":{words}}}]}}}}"#
            ),
            format!(
                r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":{words}}}"#
            ),
        ];
        end(AgentKind::Claude, &lines.each_ref().map(String::as_str), &FAILED, "").end
    };
    for (words, expected) in [
        ("You've hit your weekly limit · resets Mon 9am (UTC)", "limited until"),
        ("Claude usage limit reached. Your limit will reset at 3pm (America/New_York).", "limited until"),
        ("You've hit your Opus limit", "limited"),
        (
            "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
            "limited until",
        ),
        ("API Error: Request rejected (429) · This request would exceed your rate limit.", "environment"),
    ] {
        assert_eq!(kind(&claude(words)), expected, "{words}");
    }
}

#[test]
fn a_call_that_a_rule_of_claudes_forbids_is_told_at_once() {
    let mut decoder = decoder(AgentKind::Claude);
    decoder.line(br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}"#);
    let refused = br#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"Permission to use Bash with command git push origin has been denied."}]}}"#;
    let told = decoder.line(refused);
    assert_eq!(told[0], AgentEvent::Denied { tool: "Bash".into() });
}

#[test]
fn gemini_that_never_came_to_a_result_is_judged_by_its_exit_code() {
    let end = |code, stderr| kind(&end(AgentKind::Gemini, &[], &Exit::Exited { code }, stderr).end);
    assert_eq!(end(41, "you must specify the GEMINI_API_KEY"), "account refused");
    assert_eq!(end(42, "Error resuming session: Invalid session identifier \"x\"."), "no session");
    assert_eq!(end(55, "not trusted"), "permanent");
    assert_eq!(end(53, "Reached max session turns"), "failed");
    assert_eq!(end(130, ""), "interrupted");
    assert_eq!(end(0, ""), "interrupted");
    assert_eq!(end(127, "sh: gemini: not found"), "permanent");
}

#[test]
fn opencode_is_judged_by_its_error_or_its_last_step() {
    for (error, expected) in [
        (
            r#"{"name":"APIError","data":{"message":"busy","statusCode":529,"isRetryable":true}}"#,
            "environment",
        ),
        (
            r#"{"name":"APIError","data":{"message":"slow","statusCode":429,"responseHeaders":{"retry-after":"2"}}}"#,
            "environment",
        ),
        (
            r#"{"name":"APIError","data":{"message":"slow","statusCode":429,"responseHeaders":{"retry-after":"3600"}}}"#,
            "limited until",
        ),
        (r#"{"name":"ProviderAuthError","data":{"message":"no key"}}"#, "account refused"),
        (r#"{"name":"ContextOverflowError","data":{"message":"too much"}}"#, "permanent"),
        (r#"{"name":"MessageAbortedError","data":{}}"#, "interrupted"),
        (r#"{"name":"BrandNew"}"#, "failed"),
        (r#"17"#, "failed"),
    ] {
        assert_eq!(kind(&opencode(error)), expected, "{error}");
    }
    let step = |reason: &str, exit: &Exit| {
        let line = format!(r#"{{"type":"step_finish","sessionID":"s","part":{{"reason":"{reason}"}}}}"#);
        kind(&end(AgentKind::Opencode, &[r#"{"type":"step_start","sessionID":"s"}"#, &line], exit, "").end)
    };
    let well = Exit::Exited { code: 0 };
    assert_eq!(step("stop", &well), "success");
    assert_eq!(step("stop", &Exit::TimedOut { limit: Limit::Total }), "success");
    assert_eq!(step("other", &well), "success");
    assert_eq!(step("other", &FAILED), "failed");
    assert_eq!(step("other", &Exit::Signalled { signal: 9 }), "interrupted");
    assert_eq!(step("length", &well), "failed");
    assert_eq!(step("content-filter", &well), "permanent");
    assert_eq!(step("tool-calls", &well), "interrupted");
}

#[test]
fn a_conversation_that_is_not_there_is_told_from_a_bad_flag() {
    let end = |kind_of, stderr| kind(&end(kind_of, &[], &FAILED, stderr).end);
    let gone = "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)";
    assert_eq!(end(AgentKind::Codex, gone), "no session");
    assert_eq!(
        end(AgentKind::Opencode, "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found"),
        "no session"
    );
    assert_eq!(end(AgentKind::Codex, "error: unexpected argument '--bogus' found"), "permanent");
    assert_eq!(end(AgentKind::Opencode, "No space left on device"), "environment");
    // Only noise is no reason.
    assert_eq!(end(AgentKind::Codex, "Reading additional input from stdin...\n"), "failed");
}

#[test]
fn a_timeout_in_the_middle_of_retries_is_the_servers_doing() {
    let timed_out = Exit::TimedOut { limit: Limit::Total };
    let retry =
        r#"{"type":"error","message":"Reconnecting... 2/5 (We’re currently experiencing high demand)"}"#;
    let said = r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"on it"}}"#;
    assert_eq!(kind(&end(AgentKind::Codex, &[retry], &timed_out, "").end), "environment");
    assert_eq!(kind(&end(AgentKind::Codex, &[retry, said], &timed_out, "").end), "failed");
    // Interrupted while it waits to repeat its request, claude has a result, and it says nothing of the cause.
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":3,"error_status":401,"error":"authentication_failed"}"#;
    let result = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"}"#;
    let given_up = Exit::TimedOut { limit: Limit::Retries };
    assert_eq!(kind(&end(AgentKind::Claude, &[retry, result], &given_up, "").end), "account refused");
    assert_eq!(kind(&end(AgentKind::Claude, &[result], &given_up, "").end), "failed");
    let stderr = "Attempt 3 failed with status 503. Retrying with backoff... _ApiError: {}";
    assert_eq!(kind(&end(AgentKind::Gemini, &[], &timed_out, stderr).end), "environment");
    assert_eq!(kind(&end(AgentKind::Gemini, &[], &timed_out, "").end), "failed");
}

#[test]
fn words_that_gemini_says_in_pieces_are_heard_whole() {
    let mut decoder = decoder(AgentKind::Gemini);
    let piece = |text: &str| {
        format!(
            r#"{{"type":"message","role":"assistant","content":{},"delta":true}}"#,
            serde_json::Value::from(text)
        )
    };
    for text in ["{\"verd", "ict\":\"pa", "ss\"}"] {
        assert_eq!(decoder.line(piece(text).as_bytes()), []);
    }
    let events = decoder.line(br#"{"type":"result","status":"success","stats":{}}"#);
    assert_eq!(events[0], AgentEvent::Text { text: "{\"verdict\":\"pass\"}".into() });
    let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
    assert_eq!(ending.result_text.as_deref(), Some("{\"verdict\":\"pass\"}"));

    // A message without end is told in parts, and nothing grows.
    let long = piece(&"x".repeat(10_000));
    let told: usize = (0..100).map(|_| decoder.line(long.as_bytes()).len()).sum();
    assert!(told > 10);
}

#[test]
fn an_id_that_could_be_an_option_is_no_conversation() {
    for (kind, line) in [
        (AgentKind::Codex, r#"{"type":"thread.started","thread_id":"--yolo"}"#),
        (AgentKind::Gemini, r#"{"type":"init","session_id":"a b"}"#),
        (AgentKind::Opencode, r#"{"type":"step_start","sessionID":"../x"}"#),
    ] {
        assert_eq!(end(kind, &[line], &FAILED, "").session, None, "{line}");
    }
}

#[test]
fn a_call_of_a_tool_that_is_told_only_at_its_end_has_a_beginning_too() {
    let mut codex = decoder(AgentKind::Codex);
    let change = br#"{"type":"item.completed","item":{"id":"i1","type":"file_change","changes":[{"path":"/l/a.rs","kind":"add"}],"status":"completed"}}"#;
    let events = serde_json::to_value(codex.line(change)).unwrap();
    let expected = serde_json::json!([
        { "type": "tool-started", "id": "i1", "name": "edit", "summary": "/l/a.rs" },
        { "type": "file", "path": "/l/a.rs", "kind": "add" },
        { "type": "tool-ended", "id": "i1", "failed": false },
    ]);
    assert_eq!(events, expected);
    assert_eq!(codex.open_tools(), 0);

    let mut opencode = decoder(AgentKind::Opencode);
    opencode.line(br#"{"type":"step_start","sessionID":"s"}"#);
    assert_eq!(opencode.open_tools(), 1, "the silence of a step may be a tool at work");
    opencode.line(br#"{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls"}}"#);
    assert_eq!(opencode.open_tools(), 0);
}

#[test]
fn what_opencode_used_is_the_sum_of_its_steps() {
    let step = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":100,"output":20,"reasoning":5,"cache":{"read":7,"write":3}},"cost":0.25}}"#;
    let ending = end(AgentKind::Opencode, &[step, step], &Exit::Exited { code: 0 }, "");
    assert_eq!((ending.tokens_in, ending.tokens_out, ending.cost_usd), (220, 50, Some(0.5)));
    assert_eq!((ending.session.as_deref(), ending.turns), (Some("s"), Some(2)));
}

#[test]
fn only_a_request_that_fails_for_good_is_repeated_in_vain() {
    let claude = |attempt: u32, kind: &str| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":{attempt},"max_retries":3,"error":"{kind}"}}"#
        )
    };
    let codex = |why: &str| format!(r#"{{"type":"error","message":"Reconnecting... 2/5 ({why})"}}"#);
    let text = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"on it"}]}}"#.to_owned();
    for (kind, lines, in_vain) in [
        (AgentKind::Claude, vec![claude(1, "authentication_failed")], false),
        (AgentKind::Claude, vec![claude(2, "authentication_failed")], true),
        (AgentKind::Claude, vec![claude(2, "authentication_failed"), text], false),
        (AgentKind::Claude, vec![claude(3, "overloaded")], false),
        (AgentKind::Codex, vec![codex("unexpected status 401 Unauthorized: no")], true),
        (AgentKind::Codex, vec![codex("We’re currently experiencing high demand")], false),
    ] {
        let mut decoder = decoder(kind);
        for line in &lines {
            decoder.line(line.as_bytes());
        }
        assert_eq!(decoder.retries_in_vain(), in_vain, "{lines:?}");
    }
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m"}"#;

fn result(session: &str, more: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"{session}",{more}}}"#
    )
}

#[test]
fn a_claude_that_counts_the_whole_conversation_is_charged_for_its_own_part() {
    let used = |n: u64, usd: f64| {
        format!(r#"{{"m":{{"inputTokens":{n},"outputTokens":20,"cacheReadInputTokens":0,"costUSD":{usd}}}}}"#)
    };
    // The first two turns are other processes' of the same conversation.
    let news = |total: f64, n: u64, usd: f64| {
        let (all, news) = (used(1000 + n, total), used(n, usd));
        let more =
            format!(r#""total_cost_usd":{total},"modelUsage":{all},"model_usage_since_last_result":{news}"#);
        result("s-1", &more)
    };
    let exit = Exit::Exited { code: 0 };
    let ending = end(AgentKind::Claude, &[INIT, &news(0.66, 100, 0.125)], &exit, "");
    assert_eq!((ending.cost_usd, ending.tokens_in, ending.tokens_out), (Some(0.125), 100, 20));
    // Woken by what it left in the background, it ends another turn.
    let ending =
        end(AgentKind::Claude, &[INIT, &news(0.66, 100, 0.125), INIT, &news(0.91, 50, 0.25)], &exit, "");
    assert_eq!((ending.cost_usd, ending.tokens_in, ending.tokens_out), (Some(0.375), 150, 40));
    assert!(ending.doubts.is_empty(), "{:?}", ending.doubts);
}

#[test]
fn an_end_of_a_turn_that_is_not_the_agents_own_counts_for_nothing() {
    let cost =
        |usd: f64| format!(r#""total_cost_usd":{usd},"usage":{{"input_tokens":100,"output_tokens":1}}"#);
    let tool = r#"{"type":"assistant","session_id":"s-1","message":{"id":"a","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}}"#;
    let answered = r#"{"type":"user","session_id":"s-1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#;
    let (own, cheap) = (result("s-1", &cost(0.5)), result("s-1", &cost(0.0)));
    let (dear, stranger) = (result("s-1", &cost(90.0)), result("s-2", &cost(90.0)));
    let exit = Exit::Exited { code: 0 };
    for lines in [
        // A child of the agent writes while its tool is at work.
        vec![INIT, tool, &dear, answered, &own],
        vec![INIT, &stranger, &own],
        // And one that the agent left behind, after it.
        vec![INIT, &own, &dear],
        vec![INIT, &own, &cheap],
    ] {
        let ending = end(AgentKind::Claude, &lines, &exit, "");
        assert_eq!((&ending.end, ending.cost_usd), (&AgentEnd::Success, Some(0.5)), "{lines:#?}");
        assert!(ending.doubts[0].contains("printed an end of its turn"), "{:?}", ending.doubts);
    }
    // On its own it finishes nothing of an agent that was killed; of one that ended well it may be its own.
    let ending = end(AgentKind::Claude, &[INIT, tool, &dear], &Exit::Signalled { signal: 9 }, "");
    assert!(matches!(ending.end, AgentEnd::Interrupted { .. }), "{ending:?}");
    let ending = end(AgentKind::Claude, &[INIT, tool, &own], &exit, "");
    assert_eq!((ending.end, ending.cost_usd), (AgentEnd::Success, Some(0.5)));
}

#[test]
fn implausible_numbers_of_any_agent_are_left_out_and_told() {
    let exit = Exit::Exited { code: 0 };
    for (cost, tokens) in [("-500", "1"), ("1e308", "1"), ("0.5", "18446744073709551615")] {
        let claude =
            result("s-1", &format!(r#""total_cost_usd":{cost},"usage":{{"input_tokens":{tokens}}}"#));
        let step = format!(
            r#"{{"type":"step_finish","sessionID":"s","part":{{"reason":"stop","tokens":{{"input":{tokens},"output":0}},"cost":{cost}}}}}"#
        );
        for ending in [
            end(AgentKind::Claude, &[INIT, &claude], &exit, ""),
            end(AgentKind::Opencode, &[&step], &exit, ""),
        ] {
            assert!(ending.cost_usd.unwrap_or(0.0) <= 0.5 && ending.tokens_in <= 1, "{ending:?}");
            assert!(ending.doubts[0].starts_with("the agent reported an implausible"), "{ending:?}");
            assert_eq!(ending.end, AgentEnd::Success);
        }
    }
    let codex =
        r#"{"type":"turn.completed","usage":{"input_tokens":18446744073709551615,"output_tokens":1}}"#;
    let ending = end(AgentKind::Codex, &[codex], &exit, "");
    assert_eq!((ending.tokens_in, ending.tokens_out, ending.doubts.len()), (0, 1, 1));
}

#[test]
fn what_opencode_waits_for_without_a_word_is_in_its_log() {
    let log = "timestamp=2026-11-15T17:47:35.603Z level=ERROR run=be message=\"stream error\" providerID=anthropic \
               small=false error.error=\"AI_APICallError: You have reached your usage limit.\"";
    let mut opencode = decoder(AgentKind::Opencode);
    let told = opencode.stderr(log.as_bytes());
    assert!(matches!(&told[..], [AgentEvent::Retrying { kind, .. }] if kind == "usage_limit"), "{told:?}");
    assert!(opencode.retries_in_vain());
    let exit = Exit::TimedOut { limit: Limit::Retries };
    let ending = opencode.end(&exit, log, regatta_core::time::Timestamp::from_millis(0));
    assert!(matches!(ending.end, AgentEnd::RateLimited { .. }), "{ending:?}");
    let busy = log.replace("You have reached your usage limit.", "Overloaded");
    let mut opencode = decoder(AgentKind::Opencode);
    assert!(!opencode.stderr(busy.as_bytes()).is_empty() && !opencode.retries_in_vain());

    let filtered = r#"{"type":"error","sessionID":"s","error":{"name":"ContentFilterError","data":{"message":"The response was blocked by the provider's content filter"}}}"#;
    let ending = end(AgentKind::Opencode, &[filtered], &Exit::Exited { code: 1 }, "");
    assert!(matches!(ending.end, AgentEnd::Permanent { .. }), "{ending:?}");
    let raced = end(
        AgentKind::Opencode,
        &[],
        &Exit::Exited { code: 1 },
        "\u{1b}[91mError: \u{1b}[0mdatabase is locked",
    );
    assert_eq!(raced.end, AgentEnd::Interrupted { message: "Error: database is locked".to_owned() });
    let refused = end(
        AgentKind::Opencode,
        &[],
        &Exit::Exited { code: 1 },
        "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno such flag",
    );
    assert!(
        matches!(&refused.end, AgentEnd::Permanent { message, .. } if message == "Error: no such flag"),
        "{refused:?}"
    );
}
