use crate::forge::remote::{RemoteAddress, without_password};
use crate::forge::slug::{ForgeHost, IssueRef, NodeId, PullNumber, Slug, encoded};

#[test]
fn the_address_of_a_remote_names_a_host_and_a_repository() {
    for (url, host, ssh, slug) in [
        ("https://github.com/acme/shop.git", "github.com", false, "acme/shop"),
        ("https://github.com/acme/shop", "github.com", false, "acme/shop"),
        ("https://github.com/acme/shop/", "github.com", false, "acme/shop"),
        ("https://GitHub.com/Acme/Shop.git", "github.com", false, "Acme/Shop"),
        ("https://user:token@github.com/acme/shop.git", "github.com", false, "acme/shop"),
        ("https://x-access-token:ghp_x@github.com/acme/shop", "github.com", false, "acme/shop"),
        ("http://github.localhost/acme/shop.git", "github.localhost", false, "acme/shop"),
        ("https://ghe.acme.test:8443/acme/shop.git", "ghe.acme.test", false, "acme/shop"),
        ("git@github.com:acme/shop.git", "github.com", true, "acme/shop"),
        ("git@github.com:/acme/shop.git", "github.com", true, "acme/shop"),
        ("github.com:acme/shop", "github.com", true, "acme/shop"),
        ("work:acme/shop.git", "work", true, "acme/shop"),
        ("ssh://git@github.com/acme/shop.git", "github.com", true, "acme/shop"),
        ("ssh://git@github.com:22/acme/shop.git", "github.com", true, "acme/shop"),
        ("ssh://git@ssh.github.com:443/acme/shop.git", "github.com", true, "acme/shop"),
        ("git+ssh://git@github.com/acme/shop", "github.com", true, "acme/shop"),
        ("git://github.com/acme/shop.git", "github.com", false, "acme/shop"),
        ("https://acme.ghe.com/acme/shop", "acme.ghe.com", false, "acme/shop"),
        ("org-1234@github.com:acme/my.repo.git", "github.com", true, "acme/my.repo"),
    ] {
        let found = RemoteAddress::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(
            (found.host.as_str(), found.ssh, found.slug.to_string().as_str()),
            (host, ssh, slug),
            "{url}"
        );
    }
}

#[test]
fn what_names_no_repository_of_a_forge_is_refused() {
    for url in [
        "",
        "/srv/git/shop.git",
        "../shop",
        "./a:b/c",
        "file:///srv/shop.git",
        "C:\\shop",
        "https://github.com",
        "https://github.com/acme",
        "https://github.com/acme/shop/extra",
        "https://github.com/../shop",
        "https://github.com/acme/..",
        "https://github.com/-acme/shop",
        "https://github.com:port/acme/shop",
        "ssh://-oProxyCommand=id/acme/shop",
        "git@-host:acme/shop",
        "ext::sh -c id",
        "https://[::1]/acme/shop",
        "https://github.com/ac me/shop",
        "git@github.com:acme/shop;id",
    ] {
        assert!(RemoteAddress::parse(url).is_err(), "{url}");
    }
    let error = RemoteAddress::parse("https://me:s3cret@github.com/acme").unwrap_err().to_string();
    assert!(!error.contains("s3cret"), "{error}");
    assert_eq!(without_password("https://me:s3@cret@github.com/a/b"), "https://github.com/a/b");
}

#[test]
fn a_name_is_no_option_and_no_path() {
    for text in ["acme/shop", "a/b", "Acme-1/my.repo_x", "acme/.github", "a/-"].into_iter().take(4) {
        assert_eq!(Slug::parse(text).unwrap().to_string(), text);
    }
    for text in [
        "", "acme", "/shop", "acme/", "a/b/c", "../x", "a/..", "a/.", "-a/b", "a/-b", "a b/c", "a/b\n",
        "é/b", "a/{b}",
    ] {
        assert!(Slug::parse(text).is_err(), "{text:?}");
    }
    for text in ["github.com", "ghe.acme.test", "localhost", "GITHUB.COM."] {
        assert!(ForgeHost::parse(text).is_ok(), "{text}");
    }
    for text in ["", "https://github.com", "github.com:443", "-x", "a..b", "a/b", "a b", "x@y"] {
        assert!(ForgeHost::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "-x", "a b", "x\n", "ü"] {
        assert!(NodeId::parse(text).is_err(), "{text:?}");
    }
    assert!(Slug::parse("Acme/Shop").unwrap().is_same(&Slug::parse("acme/shop").unwrap()));
    let json = serde_json::from_str::<Slug>("\"../etc\"");
    assert!(json.is_err());
}

#[test]
fn an_issue_is_named_in_four_ways() {
    let slug = |text: &str| Some(Slug::parse(text).unwrap());
    let host = |text: &str| Some(ForgeHost::parse(text).unwrap());
    for (text, host, repo, number) in [
        ("42", None, None, 42),
        ("#42", None, None, 42),
        ("acme/shop#42", None, slug("acme/shop"), 42),
        ("https://github.com/acme/shop/issues/42", host("github.com"), slug("acme/shop"), 42),
        ("https://github.com/acme/shop/pull/42/#issuecomment-1", host("github.com"), slug("acme/shop"), 42),
        ("https://ghe.acme.test/a/b/issues/1?x=y", host("ghe.acme.test"), slug("a/b"), 1),
    ] {
        let expected = IssueRef { host, repo, number: PullNumber(number) };
        assert_eq!(IssueRef::parse(text), Ok(expected), "{text}");
    }
    for text in [
        "",
        "#",
        "0",
        "-1",
        "+1",
        "x",
        "acme#1",
        "acme/shop",
        "acme/shop#x",
        "https://github.com/acme/shop",
        "https://github.com/acme/shop/wiki/1",
        "99999999999999999999",
    ] {
        assert!(IssueRef::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn values_in_paths_mean_nothing_to_gh() {
    assert_eq!(encoded("me:regatta/GH-1"), "me%3Aregatta%2FGH-1");
    assert_eq!(encoded("{owner}/../é ?&"), "%7Bowner%7D%2F..%2F%C3%A9%20%3F%26");
}
