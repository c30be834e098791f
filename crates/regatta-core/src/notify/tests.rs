use super::*;
use crate::state::ParkReason;
use crate::train::{HeldBy, Intent};

fn event(body: EventBody) -> Event {
    let task = Some(TaskId::parse("bake").unwrap());
    Event { seq: 7, at: Timestamp::from_millis(1_763_182_800_000), task, attempt: Some(1), body }
}

fn landing(landing: LandStep) -> EventBody {
    EventBody::Landing { landing, target: Some("main".into()) }
}

fn blocked(reason: BlockReason) -> EventBody {
    EventBody::Blocked { reason, detail: "which colour?".into() }
}

#[test]
fn each_event_is_one_kind_of_notification_or_none() {
    let at = Timestamp::from_millis(1_763_190_000_000);
    let commit = Oid::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
    let reject =
        LandStep::Reject { reason: BlockReason::Conflict, detail: "x".into(), files: vec!["a".into()] };
    let parked = EventBody::Parked { until: at, why: ParkReason::RateLimited, detail: "429".into() };
    let table = [
        (landing(LandStep::Landed { commit: commit.clone() }), "shop: bake landed on main as 0123456789ab"),
        (
            landing(LandStep::AlreadyIn { commit: commit.clone() }),
            "shop: bake landed on main as 0123456789ab",
        ),
        (EventBody::Done { head: None }, "shop: bake done"),
        (EventBody::Done { head: Some(Oid::sample("abc")) }, "shop: bake done as 616263000000"),
        (EventBody::Failed { why: "exit 1\nthe oven".into() }, "shop: bake failed: exit 1 the oven"),
        (parked, "shop: bake parked: rate-limited: 429 (until 2025-11-15 07:00 UTC)"),
        (blocked(BlockReason::NeedsInput), "shop: bake needs input: which colour?"),
        (blocked(BlockReason::Verdict), "shop: bake blocked: verdict: which colour?"),
        (blocked(BlockReason::Tests), "shop: bake blocked: tests: which colour?"),
        (
            EventBody::ConflictAhead {
                with: crate::radar::Other::Target("main".into()),
                files: vec!["a b".into(), "c".into()],
            },
            "shop: bake would conflict with main in a b, c",
        ),
        // A refusal by the train is notified by the task's own event; other steps are not notified.
        (landing(reject), ""),
        (landing(LandStep::Intend { intent: Intent { onto: None, at } }), ""),
        (landing(LandStep::Wait { why: "checkout".into(), held_by: HeldBy::Changes }), ""),
        (EventBody::Approved { head: commit }, ""),
        (EventBody::Enqueued { queue: "main".into() }, ""),
        (EventBody::Stuck { why: "which colour?".into() }, ""),
        (EventBody::Cancelled { by: "ada".into() }, ""),
        (EventBody::Rearmed, ""),
        (EventBody::Due, ""),
    ];
    for (body, expected) in table {
        let told = Notification::of(&event(body.clone()), "shop");
        assert_eq!(told.map(|told| told.text()).unwrap_or_default(), expected, "{body:?}");
    }
}

#[test]
fn questions_are_told_to_whoever_wants_what_is_blocked_and_not_the_other_way_round() {
    use NotifyKind as K;
    for (kind, on, wanted) in [
        (K::NeedsInput, &[K::Blocked][..], true),
        (K::NeedsInput, &[K::NeedsInput][..], true),
        (K::Blocked, &[K::NeedsInput][..], false),
        (K::Landed, &[K::Failed, K::Landed][..], true),
        (K::Idle, &[K::Done][..], false),
    ] {
        assert_eq!(kind.is_wanted(on), wanted, "{kind} {on:?}");
    }
    for (name, kind) in K::NAMES {
        assert_eq!(K::named(name), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), name);
    }
}

#[test]
fn the_payload_has_every_key_and_no_secret() {
    let failed = event(EventBody::Failed { why: format!("token hunter2 {}", "x".repeat(5000)) });
    let mut told = Notification::of(&failed, "shop").unwrap();
    told.title = Some("Bake\0 with hunter2".into());
    let told = told.fit_to_send(|text| text.replace("hunter2", "[redacted]"));
    let payload = told.payload();
    let keys: Vec<&String> = payload.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["at", "commit", "kind", "project", "reason", "seq", "state", "target", "task", "text", "title"]
    );
    assert_eq!(payload["kind"], "failed");
    assert_eq!(payload["title"], "Bake with [redacted]");
    assert_eq!(payload["at"], "2025-11-15T05:00:00.000Z");
    assert!(payload["reason"].as_str().unwrap().chars().count() == LONGEST_REASON + 1);
    let variables: String = told.variables().into_iter().map(|(_, value)| value).collect();
    assert!(!payload.to_string().contains("hunter2") && !variables.contains("hunter2"));
    let idle = Notification::idle("shop", failed.at, [(StateName::Landed, 2), (StateName::Failed, 0)]);
    assert_eq!(idle.text(), "shop: idle: 2 landed");
    assert_eq!(idle.payload()["counts"], json!({ "landed": 2 }));
}

#[test]
fn an_address_is_read_and_its_path_is_never_shown() {
    for (text, shown, secret) in [
        ("https://example.org", "https://example.org", ""),
        ("https://hooks.example.org/T0/B0/xyz?a=b", "https://hooks.example.org/…", "T0/B0/xyz?a=b"),
        ("HTTPS://Example.org:8443?token=1", "HTTPS://Example.org:8443/…", "?token=1"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:80/…", "x"),
        ("https://[::1]:8443/x", "https://[::1]:8443/…", "x"),
    ] {
        let url = WebhookUrl::parse(text).unwrap();
        assert_eq!((url.to_string().as_str(), url.secret()), (shown, secret));
        assert!(secret.is_empty() || !format!("{url:?}").contains(secret));
    }
    for text in [
        "example.org/x",
        "ftp://example.org",
        "https://",
        "https:///x",
        "https://user:pass@example.org/x",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org/a b",
        "https://example.org/#x",
        "https://[::1/x",
        "https://[x]/",
        "https://exa%6dple.org/",
        "https://ex\nample.org/",
    ] {
        assert!(WebhookUrl::parse(text).is_err(), "{text}");
    }
    let ip = |text: &str| WebhookUrl::parse(text).unwrap().ip().map(|ip| ip.to_string());
    assert_eq!(ip("https://10.0.0.1:9/x").as_deref(), Some("10.0.0.1"));
    assert_eq!(ip("https://[fe80::1]/x").as_deref(), Some("fe80::1"));
    assert_eq!(ip("https://localhost/x"), None);
}

#[test]
fn only_machines_of_the_open_internet_are_public() {
    for address in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
}
