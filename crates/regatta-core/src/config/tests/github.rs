//! `land.via`, `land.pr` and `github`.

use std::time::Duration;

use super::*;
use crate::forge::pull::{ChecksPolicy, Feeds, MergeWhen};
use crate::forge::{ForgeHost, Permission, Slug};
use crate::train::Strategy;

#[test]
fn every_key_of_pull_requests_reaches_its_place() {
    let config = config(
        "land:\n  via: pr\n  strategy: squash\n  pr: { merge: green, checks: all, checks_within: none, draft: true, \
         labels: [regatta, bot], reviewers: [ann, acme/backend], feedback: [ci, reviews], quiet: 30s, rounds: 2, \
         max_open: 7, hold_starts: true, hold_writes: true, delete_branch: false }\n\
         github: { host: GHE.acme.test, repo: acme/shop, trust: maintain, bots: [coderabbitai], every: 2m, reserve: 0.5, \
         agents_see_token: true, token_command: [./token, --app, shop] }\n",
    );
    assert_eq!((config.land.via, config.land.push, config.land.strategy), (Via::Pr, false, Strategy::Squash));
    let expected = PullRequests {
        merge: MergeWhen::Green,
        checks: ChecksPolicy::All,
        checks_within: None,
        draft: true,
        labels: vec!["regatta".into(), "bot".into()],
        reviewers: vec!["ann".into(), "acme/backend".into()],
        feedback: Feeds { ci: true, reviews: true, ..Feeds::NOTHING },
        quiet: Some(Duration::from_secs(30)),
        rounds: 2,
        max_open: 7,
        hold_starts: true,
        hold_writes: true,
        delete_branch: false,
    };
    assert_eq!(config.land.pr, expected);
    let expected = Github {
        host: Some(ForgeHost::parse("ghe.acme.test").unwrap()),
        repo: Some(Slug::parse("acme/shop").unwrap()),
        trust: Permission::Maintain,
        bots: vec!["coderabbitai".into()],
        every: Duration::from_secs(120),
        reserve: 0.5,
        agents_see_token: true,
        token_command: vec!["./token".into(), "--app".into(), "shop".into()],
    };
    assert_eq!(config.github, expected);
    assert_eq!(config.get("land.pr.feedback"), Some(serde_json::json!(["reviews", "ci"])));
    assert_eq!(config.get("github.every"), Some(serde_json::json!("2m")));
}

#[test]
fn the_two_settings_for_a_push_always_agree() {
    for (text, via) in [
        ("", Via::Here),
        ("land: { push: true }", Via::Push),
        ("land: { push: false }", Via::Here),
        ("land: { via: push }", Via::Push),
        ("land: { via: push, push: true }", Via::Push),
        ("land: { via: pr, push: false }", Via::Pr),
        ("land: { strategy: pr }", Via::Pr),
        ("land: { strategy: pr, via: pr }", Via::Pr),
    ] {
        let config = config(text);
        assert_eq!((config.land.via, config.land.push), (via, via == Via::Push), "{text}");
        assert_eq!(config.land.strategy, Strategy::Rebase, "{text}");
    }
}

#[test]
fn the_environment_chooses_another_way() {
    for (file, variables, via) in [
        ("land: { push: true }", &[("REGATTA_LAND_VIA", "pr")][..], Via::Pr),
        ("land: { via: pr }", &[("REGATTA_LAND_PUSH", "true")], Via::Push),
        ("land: { via: pr }", &[("REGATTA_LAND_PUSH", "false")], Via::Pr),
        ("land: { via: push }", &[("REGATTA_LAND_PUSH", "false")], Via::Here),
        ("land: { via: pr }", &[("REGATTA_LAND_VIA", "here")], Via::Here),
    ] {
        let mut config = config(file);
        assert_eq!(config.apply_env(variables.iter().copied()), [], "{file} {variables:?}");
        assert_eq!((config.land.via, config.land.push), (via, via == Via::Push), "{file} {variables:?}");
    }
}
