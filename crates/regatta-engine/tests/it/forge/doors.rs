//! Which forge, which login, which repository.

use std::ffi::OsString;

use regatta_core::config::Github;
use regatta_core::forge::{ForgeHost, Slug};
use regatta_engine::forge::{Forge as _, ForgeError, NewPull};
use regatta_testkit::forge::Forge;
use regatta_testkit::repo::{ScratchRepo, script};

use super::{Desk, new_pull, shop};

fn with(mut env: Vec<(String, OsString)>, name: &str, value: impl Into<OsString>) -> Vec<(String, OsString)> {
    env.retain(|(known, _)| known != name);
    env.push((name.to_owned(), value.into()));
    env
}

#[tokio::test]
async fn a_login_of_gh_itself_and_real_host_names_work() {
    let desk = Desk::new();
    desk.scratch.git(["remote", "set-url", "origin", "git@github.com:acme/shop.git"]);
    let client = desk.client_with(&Github::default(), desk.server.socket_env());
    assert_eq!((client.host().as_str(), client.who().await.unwrap().login.as_str()), ("github.com", "octo"));
    desk.server.enterprise("ghe.acme.test");
    desk.scratch.git(["remote", "set-url", "origin", "https://ghe.acme.test/acme/shop.git"]);
    let github = Github { host: Some(ForgeHost::parse("ghe.acme.test").unwrap()), ..Github::default() };
    let client = desk.client_with(&github, desk.server.socket_env());
    let pull = desk.pull(&client, "regatta/a").await;
    assert!(client.pull(&pull.id).await.is_ok());
    assert_eq!(
        client.issues(&shop(), &regatta_core::forge::IssueQuery::default()).await.unwrap().items.len(),
        0
    );
}

#[tokio::test]
async fn colours_are_kept_out_of_the_answers() {
    let desk = Desk::new();
    let env = with(with(desk.server.world_env(), "CLICOLOR_FORCE", "1"), "GH_FORCE_TTY", "100%");
    assert_eq!(desk.client_with(&Github::default(), env).who().await.unwrap().login, "octo");
}

#[tokio::test]
async fn without_gh_and_without_a_login_it_says_what_to_do() {
    let desk = Desk::new();
    let bin = desk.scratch.outside().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|dir| dir.join(program))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(program)).unwrap();
    }
    let env = with(desk.server.world_env(), "PATH", bin.as_os_str());
    let error = desk.client_with(&Github::default(), env.clone()).who().await.unwrap_err();
    assert!(matches!(&error, ForgeError::Denied(why) if why.starts_with("gh is not installed")), "{error:?}");
    // A program that prints something else.
    script(&bin.join("gh"), "#!/bin/sh\necho 'a new version is available' >&2\necho '{}'\n");
    let error = desk.client_with(&Github::default(), env).who().await.unwrap_err();
    assert_eq!(error, ForgeError::Away("a new version is available".into()));
    let env: Vec<_> = desk.server.world_env().into_iter().filter(|(name, _)| name != "GH_TOKEN").collect();
    let error = desk.client_with(&Github::default(), env).who().await.unwrap_err();
    assert!(
        matches!(&error, ForgeError::Denied(why) if why.contains("gh auth login --hostname github.localhost")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_fork_proposes_to_what_it_was_forked_from() {
    let server = Forge::with_shop();
    server.fork("acme/shop", "me");
    let desk = Desk { server, scratch: ScratchRepo::new() };
    desk.scratch.git(["remote", "add", "origin", &desk.server.remote("me/shop")]);
    let client = desk.client_with(&Github::default(), desk.server.env_of("me"));
    let home = client.home().await.unwrap();
    assert_eq!((home.base.slug.to_string(), home.head.to_string()), ("acme/shop".into(), "me/shop".into()));
    desk.server.as_user("me").in_repo("me/shop").push("regatta/a", &[("a.txt", "a\n")]);
    let new = NewPull { head_repo: home.head.clone(), ..new_pull("regatta/a") };
    let pull = client.propose(&home.base.slug, &new).await.unwrap();
    assert_eq!((pull.head.repo.clone(), pull.created), (Some(home.head.clone()), true));
    let again = client.propose(&home.base.slug, &new).await.unwrap();
    assert_eq!((again.number, again.created), (pull.number, false));
    // A login without a permission of its own is not shown the permissions of others.
    desk.server.as_user("ann").comment(pull.number.0, "Please.");
    let facts = client.pull(&pull.id).await.unwrap();
    assert_eq!(facts.comments[0].author.permission, None);
}

#[tokio::test]
async fn the_remotes_and_the_settings_say_which_repository() {
    let desk = Desk::new();
    let repo = |text: &str| Slug::parse(text).unwrap();
    desk.scratch.git(["remote", "add", "upstream", "http://github.localhost/big/shop.git"]);
    let client = desk.client();
    assert_eq!((client.base(), client.head()), (&repo("big/shop"), &shop()));
    let github = Github { repo: Some(repo("other/shop")), ..Github::default() };
    assert_eq!(desk.client_with(&github, desk.server.world_env()).base(), &repo("other/shop"));
    // `insteadOf`, both ways.
    desk.scratch.git(["remote", "remove", "upstream"]);
    desk.scratch.git(["remote", "set-url", "origin", "gh:acme/shop"]);
    desk.scratch.git(["config", "url.http://github.localhost/.insteadOf", "gh:"]);
    assert_eq!(desk.client().base(), &shop());
    desk.scratch.git(["remote", "set-url", "origin", "http://github.localhost/acme/shop"]);
    desk.scratch.git(["config", "url.http://127.0.0.1:1/.insteadOf", "http://github.localhost/"]);
    assert_eq!(desk.client().base(), &shop());
}

#[test]
fn what_is_on_no_forge_is_named() {
    let desk = Desk::new();
    let refused = |github: &Github| {
        desk.try_client(github, desk.server.world_env()).err().map(|error| error.to_string())
    };
    desk.scratch.git(["remote", "set-url", "origin", "https://me:s3cret@git.example.org/acme/shop.git"]);
    assert_eq!(
        refused(&Github::default()).unwrap(),
        "the remote origin (https://git.example.org/acme/shop.git) is not on GitHub as far as Regatta knows"
    );
    let github = Github { host: Some(ForgeHost::parse("ghe.acme.test").unwrap()), ..Github::default() };
    assert_eq!(
        refused(&github).unwrap(),
        "`github.host` is ghe.acme.test, but the remote origin is on git.example.org"
    );
    desk.scratch.git(["remote", "set-url", "origin", "/srv/shop.git"]);
    assert!(refused(&github).unwrap().contains("is not on GitHub"));
    let outright = Github { repo: Some(shop()), ..github };
    assert_eq!(refused(&outright), None, "said outright");
    desk.scratch.git(["remote", "remove", "origin"]);
    assert_eq!(refused(&outright).unwrap(), "the repository has no remote, so it is on no forge");
}
