use super::*;

const KEY: &str = "hunter2-hunter2";

fn redactor() -> Redactor {
    Redactor::new([
        ("MY_TOKEN", KEY),
        ("LONG_TOKEN", "hunter2-hunter2-and-more"),
        ("OTHER_SECRET", "a\"b\\c\nd"),
        ("UMLAUT_PASSWORD", "größe-grün"),
        ("SHORT_KEY", "12345"),
        ("EDITOR", "not-a-secret"),
        ("PG", "postgres://u:sesame9@h/db"),
    ])
}

fn check(text: &str, expected: &str) {
    assert_eq!(redactor().redact(text), expected);
}

#[test]
fn values_of_secret_variables_are_masked_wherever_they_stand() {
    check(&format!("x{KEY}y"), "x[redacted:MY_TOKEN]y");
    check(&format!("{KEY}{KEY}"), "[redacted:MY_TOKEN][redacted:MY_TOKEN]");
    check("hunter2-hunter2-and-more", "[redacted:LONG_TOKEN]");
    check("hunter2-hunter2-and-less", "[redacted:MY_TOKEN]-and-less");
    check("größe-grün größe-grau", "[redacted:UMLAUT_PASSWORD] größe-grau");
    check("psql sesame9", "psql [redacted:PG]");
    check(r#"{"v":"a\"b\\c\nd"}"#, r#"{"v":"[redacted:OTHER_SECRET]"}"#);
    check("12345 not-a-secret", "12345 not-a-secret");
}

#[test]
fn tokens_are_known_by_their_shape() {
    check("key=sk-ant-oat01-dummy_A-9, next", "key=[redacted:anthropic-key], next");
    check(&format!("ghp_{}.", "a1B2".repeat(9)), "[redacted:github-token].");
    check("id AKIAABCDEFGHIJKLMNOP ok", "id [redacted:aws-key] ok");
    check("Authorization: bEaReR abc.def~123+/456==; x", "Authorization: bEaReR [redacted:bearer]; x");
    check("task-ant-hill-of-many-words", "task-ant-hill-of-many-words");
    let signed = format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}", "s".repeat(43));
    check(&format!("token {signed}, next"), "token [redacted:signed-token], next");
    check("data eyJ2ZXJzaW9uIjozLCJuYW1lcyI6W119", "data eyJ2ZXJzaW9uIjozLCJuYW1lcyI6W119");
    let lines = "MIIEvQIBADANBgkqhkiG9w0B\\nAQEFAASCBKcwggSjAgEAAoIBAQC7";
    check(
        &format!("\"-----BEGIN RSA PRIVATE KEY-----\\n{lines}\\n-----END RSA PRIVATE KEY-----\""),
        "\"[redacted:private-key]-----END RSA PRIVATE KEY-----\"",
    );
    check(
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0B",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0B",
    );
    check("sk-ant- bearer of bad news, ghp_short", "sk-ant- bearer of bad news, ghp_short");
}

#[test]
fn passwords_in_addresses_are_masked_whoever_wrote_them() {
    check(
        "git push https://me:s3cr3t@host/x.git now",
        "git push https://me:[redacted:url-password]@host/x.git now",
    );
    check("redis://:pw@h", "redis://:[redacted:url-password]@h");
    check("a://u:p@ss:w@h:80/p@q", "a://u:[redacted:url-password]@h:80/p@q");
    check(r#"{"u":"https:\/\/me:pw@h\/x"}"#, r#"{"u":"https:\/\/me:[redacted:url-password]@h\/x"}"#);
    for plain in [
        "http://localhost:3000/@x",
        "ssh://git@host:22/x",
        "http://u:@h",
        "http://[::1]:80/",
        "://",
        "x ://a:b c@d",
    ] {
        check(plain, plain);
    }
    let once = redactor().redact("https://me:s3cr3t@host").into_owned();
    check(&once, &once);
}

#[test]
fn text_without_secrets_is_not_copied() {
    assert!(matches!(redactor().redact("nothing here, sk- or hunter2-"), Cow::Borrowed(_)));
}

#[test]
fn a_stream_says_the_same_wherever_it_is_cut() {
    let redactor = redactor();
    let text = format!(
        "a{KEY} hunter2-hunter2-and-more hunter2-hunter2-and-mor größe-grün größ sk-ant-api03-{} \
         eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc eyJhbGciOiJIUzI1NiJ9-no-token -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END \
         bearer {}! sk-an AKIAABCDEFGHIJKLMNOP hunter2-hunter hunter2-hunter2 sk-ant-12345678",
        "x".repeat(40),
        "y".repeat(40),
    );
    let whole = redactor.redact(&text).into_owned();
    assert!(!whole.contains(KEY) && !whole.contains("xxx") && !whole.contains("yyy"), "{whole}");
    let bytes = text.as_bytes();
    for first in 0..=bytes.len() {
        for second in [first, (first + 1).min(bytes.len()), (first + 7).min(bytes.len())] {
            let mut stream = redactor.stream();
            let mut out = stream.push(&bytes[..first]);
            out.extend(stream.push(&bytes[first..second]));
            out.extend(stream.push(&bytes[second..]));
            out.extend(stream.finish());
            assert_eq!(String::from_utf8(out).unwrap(), whole, "cut at {first} and {second}");
        }
    }
    let mut stream = redactor.stream();
    let mut out: Vec<u8> = bytes.iter().flat_map(|byte| stream.push(&[*byte])).collect();
    out.extend(stream.finish());
    assert_eq!(String::from_utf8(out).unwrap(), whole, "byte by byte");
}

#[test]
fn a_stream_holds_back_no_more_than_a_secret_could_be_long() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    assert_eq!(stream.push(b"plain \xff\xfe bytes\n"), b"plain \xff\xfe bytes\n");
    stream.push(b"sk-ant-12345678");
    for _ in 0..1000 {
        assert_eq!(stream.push(&[b'z'; 1000]), b"");
        assert!(stream.held.len() < 100);
    }
    assert_eq!(stream.push(b" end."), b" end.");
}

#[test]
fn a_line_of_json_stays_one() {
    let redactor =
        Redactor::new([("PIN_SECRET", "123456"), ("A_PASSWORD", "assistant"), ("Q_KEY", "q\"uo\\te")]);
    let check = |line: &str, expected: &str| {
        assert_eq!(redactor.redact(line), expected);
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok(), "{expected}");
    };
    check(r#"{"type":"assistant"}"#, r#"{"type":"assistant"}"#);
    check(r#"{"cost":0.123456,"ms":1234567,"n":9123456}"#, r#"{"cost":0.123456,"ms":1234567,"n":9123456}"#);
    check(r#"{"pin":123456,"x": 123456}"#, r#"{"pin":"[redacted:PIN_SECRET]","x": "[redacted:PIN_SECRET]"}"#);
    check(r#"{"t":"it is 123456."}"#, r#"{"t":"it is [redacted:PIN_SECRET]."}"#);
    check(r#"{"t":"{\"pin\":123456}"}"#, r#"{"t":"{\"pin\":[redacted:PIN_SECRET]}"}"#);
    // Once and twice inside a text.
    check(r#"{"t":"q\"uo\\te"}"#, r#"{"t":"[redacted:Q_KEY]"}"#);
    check(r#"{"t":"{\"v\":\"q\\\"uo\\\\te\"}"}"#, r#"{"t":"{\"v\":\"[redacted:Q_KEY]\"}"}"#);
}

#[test]
fn a_number_is_masked_alike_wherever_it_is_cut() {
    let redactor = Redactor::new([("PIN_SECRET", "123456")]);
    let text = "123456 0.123456 123456.7 123456. \"a\": 123456, \"b\":123456\n123456.";
    let whole = redactor.redact(text).into_owned();
    let mask = "[redacted:PIN_SECRET]";
    assert_eq!(
        whole,
        format!("{mask} 0.123456 123456.7 {mask}. \"a\": \"{mask}\", \"b\":\"{mask}\"\n{mask}.")
    );
    for cut in 0..text.len() {
        let mut stream = redactor.stream();
        let mut out = stream.push(&text.as_bytes()[..cut]);
        out.extend(stream.push(&text.as_bytes()[cut..]));
        out.extend(stream.finish());
        assert_eq!(String::from_utf8(out).unwrap(), whole, "cut at {cut}");
    }
}

#[test]
fn nothing_of_a_secret_is_in_what_is_written_for_debugging() {
    let shown = format!("{:?} {:?}", redactor(), redactor().stream());
    assert!(!shown.contains("hunter2") && shown.contains("MY_TOKEN"), "{shown}");
}

#[test]
fn a_secret_in_base64_is_found_whatever_stands_around_it() {
    // `hunter2-hunter2`, with nothing, `a`, `ab` and `abc` before it; then with bytes that differ between alphabets.
    for (text, expected) in [
        ("aHVudGVyMi1odW50ZXIy", "[redacted:DB_PASSWORD]"),
        ("aHVudGVyMi1odW50ZXIyIQ==", "[redacted:DB_PASSWORD]IQ=="),
        ("YWh1bnRlcjItaHVudGVyMg==", "YW[redacted:DB_PASSWORD]g=="),
        ("YWJodW50ZXIyLWh1bnRlcjI=", "YWJ[redacted:DB_PASSWORD]I="),
        ("YWJjaHVudGVyMi1odW50ZXIy", "YWJj[redacted:DB_PASSWORD]"),
        ("aHVudGVy", "aHVudGVy"),
    ] {
        let redactor = Redactor::new([("DB_PASSWORD", "hunter2-hunter2")]);
        assert_eq!(redactor.redact(text), expected);
    }
    let redactor = Redactor::new([("API_KEY", "~~~???>>>")]);
    assert_eq!(redactor.redact("fn5+Pz8/Pj4+ fn5-Pz8_Pj4-"), "[redacted:API_KEY] [redacted:API_KEY]");
}
