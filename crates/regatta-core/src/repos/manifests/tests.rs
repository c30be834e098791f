use super::*;

/// Everything a manifest says, one line each.
fn shown(path: &str, text: &str) -> String {
    let manifest = Manifest::parse(path, text).expect("a manifest");
    let mut lines: Vec<String> = Vec::new();
    for (ecosystem, name) in &manifest.provides {
        lines.push(format!("offers {ecosystem:?} {name}"));
    }
    for Reference { line, target } in &manifest.references {
        lines.push(match target {
            Target::Path(path) => format!("{line}: path {path}"),
            Target::Git(address) => format!("{line}: git {address}"),
            Target::Package(ecosystem, name) => format!("{line}: {ecosystem:?} {name}"),
        });
    }
    lines.extend(manifest.problem.map(|problem| problem.to_string()));
    lines.join("\n")
}

#[test]
fn cargo() {
    let text = r#"
[package]
name = "api"
version = "0.1.0"

[dependencies]
serde = "1"
shared = { path = "../shared", version = "1" }
renamed = { package = "other-name", version = "2" }
inherited.workspace = true
remote = { git = "https://github.com/acme/remote.git", branch = "main" }

[dependencies.long]
features = ["x"]
path = '../long'

[target.'cfg(unix)'.dev-dependencies]
unix = { path = "../unix" }

[workspace]
members = ["crates/*", "../outside/crate"]
[workspace.dependencies]
w = { path = "../w" }

[patch.crates-io]
p = { git = "ssh://git@example.org/acme/p" }
[patch."https://github.com/acme/q"]
q = { path = "../q" }
"#;
    insta::assert_snapshot!(shown("Cargo.toml", text), @r"
    offers Cargo api
    7: Cargo serde
    8: path ../shared
    9: Cargo other-name
    11: git https://github.com/acme/remote.git
    15: path ../long
    18: path ../unix
    21: path crates
    21: path ../outside/crate
    23: path ../w
    26: git ssh://git@example.org/acme/p
    28: path ../q
    ");
    assert_eq!(shown("Cargo.toml", "[package]\nname = \"x\"\npublish = false\n"), "");
}

#[test]
fn package_json() {
    let text = "\u{feff}{\r
\t\"name\": \"@acme/web\",\r
\t\"workspaces\": { \"packages\": [\"packages/*\", \"../ui\", \"!../old\"] },\r
\t\"dependencies\": {\r
\t\t\"a\": \"^1.0.0\", \"b\": \"file:../b\",\r
\t\t\"c\": \"link:../c\",\r
\t\t\"d\": \"workspace:*\",\r
\t\t\"e\": \"workspace:../e\",\r
\t\t\"f\": \"git+ssh://git@github.com/acme/f.git#v1\",\r
\t\t\"g\": \"github:acme/g\",\r
\t\t\"h\": \"acme/h#semver:^1\",\r
\t\t\"i\": \"npm:@acme/real@^2\",\r
\t\t\"j\": \"https://example.org/acme/j.git\",\r
\t\t\"k\": \"https://example.org/k.tgz\",\r
\t\t\"l\": \"git@example.org:acme/l.git\",\r
\t\t\"esc\\u0061ped\": \"catalog:\"\r
\t},\r
\t\"overrides\": { \"m\": \"../m\", \"n\": { \"o\": \"1\" } },\r
\t\"pnpm\": { \"overrides\": { \"p\": \"link:../p\" } }\r
}\r
";
    insta::assert_snapshot!(shown("web/package.json", text), @r"
    offers Npm @acme/web
    3: path packages
    3: path ../ui
    5: Npm a
    5: path ../b
    6: path ../c
    7: Npm d
    8: path ../e
    9: git ssh://git@github.com/acme/f.git
    10: git https://github.com/acme/g
    11: git https://github.com/acme/h
    12: Npm @acme/real
    13: git https://example.org/acme/j.git
    14: Npm k
    15: git git@example.org:acme/l.git
    16: Npm escaped
    18: path ../m
    19: path ../p
    ");
    assert_eq!(shown("package.json", r#"{"workspaces": ["../x"], "dependencies": []}"#), "1: path ../x");
    let pnpm = "packages:\n  - 'packages/*'\n  - ../design\n  - '!**/test/**'\n";
    assert_eq!(shown("pnpm-workspace.yaml", pnpm), "2: path packages\n3: path ../design");
}

#[test]
fn go() {
    let text = "// a comment
module example.org/acme/api // the API

go 1.22

require (
\texample.org/acme/shared v1.2.3
\tgolang.org/x/net v0.1.0 // indirect
)
require example.org/acme/one v1.0.0

replace example.org/acme/shared => ../libs/shared
replace (
\texample.org/old v1.0.0 => example.org/new v1.1.0
\t\"example.org/quoted\" => `./inside`
)
exclude example.org/bad v1.0.0
";
    insta::assert_snapshot!(shown("go.mod", text), @r"
    offers Go example.org/acme/api
    7: Go example.org/acme/shared
    8: Go golang.org/x/net
    10: Go example.org/acme/one
    12: path ../libs/shared
    14: Go example.org/new
    15: path ./inside
    ");
    let work = "go 1.22\nuse ./api\nuse (\n\t../shared\n)\nreplace x => ../y\n";
    assert_eq!(shown("go.work", work), "2: path ./api\n4: path ../shared\n6: path ../y");
}

#[test]
fn python() {
    let text = r#"
[build-system]
requires = ["hatchling"]
[project]
name = "Acme.API"
dependencies = [
  "requests>=2; python_version > '3'",
  "acme_shared[test] @ git+https://github.com/acme/shared.git@main#subdirectory=py",
  "local @ file:///src/local",
]
[project.optional-dependencies]
dev = ["pytest ~= 7"]
[dependency-groups]
lint = ["ruff", { include-group = "dev" }]
[tool.uv.sources]
a = { path = "../a", editable = true }
b = { git = "ssh://git@github.com/acme/b" }
c = { workspace = true }
d = [{ path = "../d", marker = "sys_platform == 'linux'" }, { index = "x" }]
[tool.uv.workspace]
members = ["packages/*", "../outside"]
[tool.poetry.dependencies]
python = "^3.11"
e = { path = "../e", develop = true }
f = "^1"
[tool.poetry.group.test.dependencies]
g = { git = "https://example.org/acme/g.git" }
[tool.pdm.dev-dependencies]
dev = ["-e file:///${PROJECT_ROOT}/../pdm"]
"#;
    insta::assert_snapshot!(shown("pyproject.toml", text), @r"
    offers Python acme-api
    3: Python hatchling
    7: Python requests
    8: git https://github.com/acme/shared.git
    9: path /src/local
    12: Python pytest
    14: Python ruff
    16: path ../a
    17: git ssh://git@github.com/acme/b
    19: path ../d
    21: path packages
    21: path ../outside
    24: path ../e
    25: Python f
    27: git https://example.org/acme/g.git
    29: path ./../pdm
    ");
    let text = "# comment
-r base.txt
--index-url https://example.org/simple
-e ../shared[test]  # the library
--editable=../two
git+https://github.com/acme/three.git@v1#egg=three
-e git+ssh://git@github.com/acme/four.git@main
Flask_SQL == \\
    1.0 ; python_version < '4'
./inside
seven @ git+https://github.com/acme/seven
";
    insta::assert_snapshot!(shown("requirements-dev.txt", text), @r"
    4: path ../shared
    5: path ../two
    6: git https://github.com/acme/three.git
    7: git ssh://git@github.com/acme/four.git
    8: Python flask-sql
    10: path ./inside
    11: git https://github.com/acme/seven
    ");
}

#[test]
fn submodules() {
    let text = "[submodule \"libs/shared\"]\n\tpath = libs/shared\n\turl = https://github.com/acme/shared\n\
                [other]\n\turl = https://example.org/no\n[Submodule \"b\"]\n  URL=../b.git\n  path = b\n";
    assert_eq!(shown(".gitmodules", text), "3: git https://github.com/acme/shared\n7: git ../b.git");
    assert_eq!(submodule_paths(text), ["libs/shared", "b"]);
}

#[test]
fn mistakes_have_a_place_and_stop_nothing() {
    for (path, text, expected) in [
        ("Cargo.toml", "[package]\nname = \n", "Cargo.toml:2:8: warning: not valid TOML: "),
        (
            "a/package.json",
            "{\n  \"name\": }\n",
            "a/package.json:2:11: warning: not a JSON object: expected value",
        ),
        ("package.json", "[]", "package.json:1:"),
        ("package.json", "", "package.json:1:1: warning: not a JSON object: EOF while parsing a value"),
        (
            "go.mod",
            "module x\nrequire (\n a v1\n",
            "go.mod:2:1: warning: the block `require (` is never closed",
        ),
        ("pnpm-workspace.yaml", "packages: [", "pnpm-workspace.yaml:"),
        ("pyproject.toml", "a = 1\na = 2\n", "pyproject.toml:2:1: warning: not valid TOML: duplicate key"),
    ] {
        let problem = Manifest::parse(path, text).unwrap().problem.expect(path).to_string();
        assert!(problem.starts_with(expected), "{problem}");
    }
    // Wrong types are somebody else's business.
    assert_eq!(shown("Cargo.toml", "dependencies = 3\nworkspace = []\npatch = 1\n"), "");
    assert_eq!(shown("package.json", r#"{"dependencies": {"a": 1}, "workspaces": 7, "name": []}"#), "");
}

#[test]
fn installed_packages_are_not_manifests_of_the_repository() {
    for path in
        ["node_modules/a/package.json", "x/vendor/y/go.mod", ".venv/z/pyproject.toml", "sub/.gitmodules"]
    {
        assert_eq!(ManifestKind::of(path), None, "{path}");
    }
    assert_eq!(ManifestKind::of("a/b/requirements-dev.txt"), Some(ManifestKind::Requirements));
    assert_eq!(ManifestKind::of("README.md"), None);
}

proptest::proptest! {
    #[test]
    fn any_text_is_survived(text in ".{0,200}", kind in 0usize..8) {
        let path = ["Cargo.toml", "package.json", "pnpm-workspace.yaml", "go.mod", "go.work", "pyproject.toml",
            "requirements.txt", ".gitmodules"][kind];
        let _ = Manifest::parse(path, &text);
    }
}
