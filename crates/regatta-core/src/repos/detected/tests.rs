use super::*;

/// A repository at `/src/<place>`, with its files as `(path, text)`.
fn repo(place: &str, remote: &str, files: &[(&str, &str)]) -> Surveyed {
    let name = place.rsplit('/').next().unwrap_or(place).to_owned();
    let manifests =
        files.iter().map(|(path, text)| Manifest::parse(path, text).expect("a manifest")).collect();
    let remotes = RemoteAddress::parse(remote).into_iter().collect();
    Surveyed { name, root: PathBuf::from("/src").join(place), remotes, manifests }
}

fn shown_edges(repos: &[Surveyed]) -> String {
    let lines = edges(repos).into_iter().flat_map(|edge| {
        let DetectedEdge { from, to, evidence } = edge;
        evidence.into_iter().map(move |Evidence { file, line, by, what }| {
            format!("{from} -> {to}: {file}:{line} {by:?} {what}\n")
        })
    });
    lines.collect()
}

#[test]
fn every_form_of_reference_leads_to_the_repository() {
    let shared = repo(
        "libs/shared",
        "git@github.com:acme/shared.git",
        &[
            ("Cargo.toml", "[package]\nname = \"acme-shared\"\n"),
            ("js/package.json", "{\"name\": \"@acme/shared\"}"),
            ("go.mod", "module github.com/acme/shared/v2\n"),
            ("py/pyproject.toml", "[project]\nname = \"Acme_Shared\"\n"),
        ],
    );
    let api = repo(
        "api",
        "https://github.com/acme/api",
        &[
            (".gitmodules", "[submodule \"s\"]\n\tpath = deps/s\n\turl = ../shared.git\n"),
            (
                "Cargo.toml",
                "[dependencies]\nacme-shared = { path = \"../libs/shared\" }\nown = { path = \"own\" }\n",
            ),
            ("go.mod", "module github.com/acme/api\n\nrequire github.com/acme/shared/v2 v2.1.0\n"),
            ("package.json", "{\n  \"dependencies\": {\n    \"x\": \"github:acme/shared#main\"\n  }\n}\n"),
            ("sub/requirements.txt", "-e ../../libs/shared/py\nacme.shared==1.0\n"),
        ],
    );
    insta::assert_snapshot!(shown_edges(&[shared, api]), @r"
    api -> shared: .gitmodules:3 Git ../shared.git
    api -> shared: Cargo.toml:2 Path ../libs/shared
    api -> shared: go.mod:3 Package github.com/acme/shared/v2
    api -> shared: package.json:3 Git github.com/acme/shared
    api -> shared: sub/requirements.txt:1 Path ../../libs/shared/py
    api -> shared: sub/requirements.txt:2 Package acme-shared
    ");
}

#[test]
fn a_name_that_two_repositories_offer_means_neither() {
    let one = repo("one", "", &[("package.json", "{\"name\": \"utils\"}")]);
    let two = repo("two", "", &[("package.json", "{\"name\": \"utils\"}")]);
    let user = repo("user", "", &[("package.json", "{\"dependencies\": {\"utils\": \"1\"}}")]);
    assert_eq!(shown_edges(&[one.clone(), two, user.clone()]), "");
    assert_eq!(shown_edges(&[one, user]), "user -> one: package.json:1 Package utils\n");
}

#[test]
fn a_repository_inside_another_is_the_innermost_one() {
    let outer = repo("outer", "", &[("Cargo.toml", "[dependencies]\na = { path = \"deps/inner/a\" }\n")]);
    let inner = repo("outer/deps/inner", "", &[]);
    assert_eq!(shown_edges(&[outer, inner]), "outer -> inner: Cargo.toml:2 Path deps/inner/a\n");
}

#[test]
fn similar_paths_are_not_confused_and_passwords_are_not_shown() {
    let lib = repo("lib", "https://example.org/acme/lib", &[]);
    let text = "[dependencies]\na = { path = \"../lib2\" }\nb = { git = \"https://me:secret@example.org/acme/lib.git\" }\n";
    let user = repo("user", "", &[("Cargo.toml", text)]);
    assert_eq!(shown_edges(&[lib, user]), "user -> lib: Cargo.toml:3 Git example.org/acme/lib\n");
}
