//! Charts in Git repositories: which requests a poll sends, what it shares, and what is refused.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use helmops_git::{
    GitChart, Location, Reference, ReferenceFields,
    chart::{ChartPath, PackedChart, Strategy},
    testing::{Repository, Server as GitServer},
};
use helmops_model::{chart::resolved::ChartVersion, reason::Reason};
use helmops_process::lock;
use helmops_runtime::error_class::{Class, ClassifiedError, Scope};

use super::{
    fixture::{PASSWORD, TestResolver, anonymous, basic, login},
    server::{Action, Reply, RequestHead, Server, response, status},
};
use crate::{
    access::Access,
    bounds::MemoryBounds,
    git::{GitError, GitPoll, KnownChart},
    poll::DeployedChart,
};

const GREETING: &str = "GET /g/n.git/info/refs?service=git-upload-pack";
const POST: &str = "POST /g/n.git/git-upload-pack";

/// A repository that a test changes while its server runs.
pub type Shared = Arc<Mutex<GitServer>>;

pub fn web(version: &str) -> Vec<(&'static str, String)> {
    vec![
        (
            "charts/web/Chart.yaml",
            format!("name: web\nversion: {version}\n"),
        ),
        ("charts/web/templates/a.yaml", "a: 1".to_owned()),
        ("charts/db/Chart.yaml", "name: db\nversion: 1.0.0\n".to_owned()),
    ]
}

pub fn commit(shared: &Shared, files: &[(&'static str, String)]) {
    let files: Vec<_> = files
        .iter()
        .map(|(path, content)| (*path, content.as_str()))
        .collect();
    lock(shared).repository.commit("main", &files);
}

pub fn with_charts() -> Shared {
    let shared = Arc::new(Mutex::new(GitServer::new(Repository::default())));
    commit(&shared, &web("1.0.0"));
    shared
}

/// The reply of a Git server for the repository `g/n.git`.
fn reply(shared: &Shared, head: &RequestHead) -> Reply {
    let target = head.target.strip_prefix("/g/n.git/").unwrap_or_default();
    match lock(shared).respond(target, head.text("Git-Protocol"), &head.body) {
        Some(body) => response(
            200,
            &[("Content-Type", "application/x-git-upload-pack-result")],
            body,
        ),
        None => status(404, &[]),
    }
}

async fn serve(shared: &Shared) -> Server {
    let shared = Arc::clone(shared);
    Server::http(move |head| reply(&shared, head)).await
}

fn at(server: &Server, path: &str) -> GitChart {
    of(&format!("{}/g/n.git", server.url()), path)
}

pub fn of(url: &str, path: &str) -> GitChart {
    GitChart {
        location: Location::parse(url).unwrap(),
        reference: Reference::Head,
        path: ChartPath::parse(path).unwrap(),
        strategy: Strategy::ChartVersion,
    }
}

pub fn changed(poll: Result<GitPoll, GitError>) -> PackedChart {
    match poll.unwrap() {
        GitPoll::Changed(_, packed) => *packed,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn assert_fails(poll: Result<GitPoll, GitError>, reason: Reason, expected: &[&str]) -> GitError {
    let error = poll.expect_err("the poll succeeds");
    let message = error.to_string();
    assert_eq!(error.reason(), reason, "{message}");
    for part in expected {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    let debug = format!("{message}{error:?}");
    assert!(
        !debug.contains(PASSWORD) && !message.contains("helmSecretName"),
        "{debug}"
    );
    assert!(message.len() < 1024, "{message}");
    error
}

#[tokio::test]
async fn a_poll_is_one_request_until_the_commit_changes() {
    let shared = with_charts();
    let server = serve(&shared).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    let poll = resolver.git(&anonymous(), &chart, None).await.unwrap();
    let GitPoll::Changed(selected, packed) = poll else {
        panic!("{poll:?}")
    };
    assert_eq!((&*packed.name, &*packed.version), ("web", "1.0.0"));
    assert_eq!(server.lines(), [GREETING, POST, POST, POST]);

    let known = KnownChart {
        commit: selected.commit,
        content: &packed.content,
    };
    let poll = resolver.git(&anonymous(), &chart, Some(known)).await;
    assert_eq!(poll.unwrap(), GitPoll::SameCommit);
    assert_eq!(server.lines().len(), 5);
    assert!(server.requests()[4].body.len() < 200);

    // A commit that changes another chart: its folders, and no file.
    let mut files = web("1.0.0");
    files[2].1 = "name: db\nversion: 2.0.0\n".to_owned();
    commit(&shared, &files);
    let poll = resolver.git(&anonymous(), &chart, Some(known)).await.unwrap();
    assert!(matches!(poll, GitPoll::SameContent(_)), "{poll:?}");
    assert_eq!(server.lines().len(), 7);
    // Another chart in the same commit shares what was fetched.
    let db = resolver.git(&anonymous(), &at(&server, "charts/db"), None).await;
    assert_eq!(changed(db).version, "2.0.0");
    assert_eq!(server.lines().len(), 9);
    assert_eq!(resolver.requests("references", "success"), 5);
    assert_eq!(resolver.requests("pack", "success"), 4);
    resolver.assert_idle(9);
}

#[tokio::test]
async fn concurrent_polls_of_a_repository_share_their_requests() {
    let shared = with_charts();
    let server = serve(&shared).await;
    let (resolver, access) = (TestResolver::new(), anonymous());
    let since = std::time::Instant::now();
    let poll = async |path: &str| {
        let query = crate::git::GitQuery {
            known: None,
            since,
            archive: 1 << 20,
        };
        changed(resolver.git_query(&access, &at(&server, path), query).await).name
    };
    let names = futures::join!(
        poll("charts/web"),
        poll("charts/db"),
        poll("charts/web"),
        poll("charts/db")
    );
    assert_eq!(
        names,
        (
            "web".to_owned(),
            "db".to_owned(),
            "web".to_owned(),
            "db".to_owned()
        )
    );
    // The greeting, the references, the folders, and the files of each.
    assert_eq!(server.lines().len(), 3 + 4);
}

#[tokio::test]
async fn servers_without_filters_and_of_older_versions_send_whole_packs() {
    for (is_new, requests) in [(true, vec![GREETING, POST, POST]), (false, vec![GREETING, POST])] {
        let shared = with_charts();
        {
            let mut server = lock(&shared);
            (server.is_new, server.has_filter) = (is_new, false);
        }
        let server = serve(&shared).await;
        let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
        assert_eq!(
            changed(resolver.git(&anonymous(), &chart, None).await).version,
            "1.0.0"
        );
        assert_eq!(server.lines(), requests);
        commit(&shared, &web("1.1.0"));
        assert_eq!(
            changed(resolver.git(&anonymous(), &chart, None).await).version,
            "1.1.0"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_replaced_by_an_older_one_is_greeted_again() {
    let shared = with_charts();
    let server = serve(&shared).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    changed(resolver.git(&anonymous(), &chart, None).await);
    lock(&shared).is_new = false;
    commit(&shared, &web("1.1.0"));
    assert_eq!(
        changed(resolver.git(&anonymous(), &chart, None).await).version,
        "1.1.0"
    );
}

/// A mirror that a redirect names for a while must not be the source of charts afterwards.
#[tokio::test]
async fn a_redirect_holds_as_long_as_it_is_there() {
    let (shared, old) = (with_charts(), with_charts());
    let mirror = serve(&old).await;
    let to = mirror.url();
    let is_redirected = Arc::new(AtomicBool::new(true));
    let (own, is_there) = (Arc::clone(&shared), Arc::clone(&is_redirected));
    let server = Server::http(move |head| {
        if is_there.load(Ordering::SeqCst) {
            return status(302, &[("Location", &format!("{to}{}", head.target))]);
        }
        reply(&own, head)
    })
    .await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    let first = resolver.git(&anonymous(), &chart, None).await;
    assert_eq!(changed(first).version, "1.0.0");
    is_redirected.store(false, Ordering::SeqCst);
    commit(&shared, &web("1.1.0"));
    let second = resolver.git(&anonymous(), &chart, None).await;
    assert_eq!(changed(second).version, "1.1.0");
}

#[tokio::test]
async fn a_server_that_loses_filters_is_greeted_again() {
    let shared = with_charts();
    let server = serve(&shared).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    changed(resolver.git(&anonymous(), &chart, None).await);
    lock(&shared).has_filter = false;
    commit(&shared, &web("1.1.0"));
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_eq!(changed(poll).version, "1.1.0");
}

/// Some servers refuse what is not named by a reference.
#[tokio::test]
async fn a_server_that_sends_no_single_files_sends_the_whole_commit() {
    let shared = with_charts();
    lock(&shared).sends_files = false;
    let server = serve(&shared).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_eq!(changed(poll).version, "1.0.0");
    // The next commit comes with its files.
    let before = server.lines().len();
    commit(&shared, &web("1.1.0"));
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_eq!(changed(poll).version, "1.1.0");
    assert_eq!(server.lines()[before..], [POST, POST]);
}

#[tokio::test]
async fn a_response_that_is_refused_counts_as_a_failure() {
    let shared = with_charts();
    let own = Arc::clone(&shared);
    let server = Server::http(move |head| {
        let mut reply = reply(&own, head);
        if head.body.starts_with(b"0012command=fetch")
            && let Some(Action::Write(body)) = reply.last_mut()
        {
            // Within the hash of the pack.
            let at = body.len() - 10;
            body[at] ^= 1;
        }
        reply
    })
    .await;
    let resolver = TestResolver::new();
    let poll = resolver.git(&anonymous(), &at(&server, "charts/web"), None).await;
    assert_fails(
        poll,
        Reason::RepositoryError,
        &["damaged: its hash is another one"],
    );
    assert_eq!(resolver.requests("pack", "RepositoryError"), 1);
    let other = at(&server, "");
    let missing = GitChart {
        reference: Reference::parse(ReferenceFields {
            commit: &"0".repeat(40),
            ..ReferenceFields::default()
        })
        .unwrap(),
        ..other
    };
    let poll = resolver.git(&anonymous(), &missing, None).await;
    assert_fails(poll, Reason::RepositoryError, &["not our ref"]);
    assert_eq!(resolver.requests("pack", "RepositoryError"), 2);
}

/// What is decompressed while a chart is packed, and its archive, are in memory as its packs are.
#[tokio::test]
async fn packing_a_chart_is_charged() {
    let server = serve(&with_charts()).await;
    for (responses, is_packed) in [(24 << 20, false), (64 << 20, true)] {
        let resolver = TestResolver::with_bounds(&MemoryBounds {
            responses,
            cache: 1 << 20,
        });
        let poll = resolver.git(&anonymous(), &at(&server, "charts/web"), None).await;
        if is_packed {
            changed(poll);
        } else {
            assert_fails(poll, Reason::Busy, &["in use"]);
            assert_eq!(
                resolver.requests("pack", "success"),
                1,
                "the folders have been read"
            );
        }
    }
}

#[tokio::test]
async fn branches_tags_ranges_and_commits_name_a_version() {
    let shared = with_charts();
    let first = {
        let mut server = lock(&shared);
        let first = server.repository.references["HEAD"];
        server.repository.annotated_tag("v1.0.0", first);
        first
    };
    commit(&shared, &web("2.0.0"));
    {
        let mut server = lock(&shared);
        let second = server.repository.references["HEAD"];
        server.repository.tag("v2.0.0", second);
    }
    let server = serve(&shared).await;
    let (resolver, commit) = (TestResolver::new(), first.to_string());
    let fields = ReferenceFields::default;
    for (fields, version) in [
        (
            ReferenceFields {
                branch: "main",
                ..fields()
            },
            "2.0.0",
        ),
        (
            ReferenceFields {
                tag: "v1.0.0",
                ..fields()
            },
            "1.0.0",
        ),
        (
            ReferenceFields {
                semver: "1.x",
                ..fields()
            },
            "1.0.0",
        ),
        (
            ReferenceFields {
                semver: ">=1",
                ..fields()
            },
            "2.0.0",
        ),
        (
            ReferenceFields {
                commit: &commit,
                ..fields()
            },
            "1.0.0",
        ),
    ] {
        let chart = GitChart {
            reference: Reference::parse(fields).unwrap(),
            ..at(&server, "charts/web")
        };
        assert_eq!(
            changed(resolver.git(&anonymous(), &chart, None).await).version,
            version,
            "{fields:?}"
        );
    }
    // The list of a known commit is not requested.
    let lists = |server: &Server| {
        server
            .requests()
            .iter()
            .filter(|head| head.body.starts_with(b"0014command=ls-refs"))
            .count()
    };
    assert_eq!(lists(&server), 4);
}

#[tokio::test]
async fn what_is_not_there_is_reported() {
    let server = serve(&with_charts()).await;
    let resolver = TestResolver::new();
    let chart = GitChart {
        reference: Reference::Branch("none".to_owned()),
        ..at(&server, "charts/web")
    };
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_fails(
        poll,
        Reason::NoMatchingVersion,
        &["/g/n.git: the repository has no branch \"none\""],
    );
    let poll = resolver.git(&anonymous(), &at(&server, "charts/wep"), None).await;
    assert_fails(
        poll,
        Reason::ChartNotFound,
        &[
            "commit ",
            "\"charts/wep\" is not in the repository",
            "charts/db, charts/web",
        ],
    );
    let poll = resolver
        .git(
            &anonymous(),
            &of(&format!("{}/g/other.git", server.url()), ""),
            None,
        )
        .await;
    assert_fails(
        poll,
        Reason::RepositoryNotFound,
        &["no Git repository at this URL", "spec.chartSource.git.url"],
    );
    let chart = GitChart {
        reference: Reference::parse(ReferenceFields {
            commit: &"0".repeat(40),
            ..ReferenceFields::default()
        })
        .unwrap(),
        ..at(&server, "charts/web")
    };
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_fails(
        poll,
        Reason::RepositoryError,
        &["the Git server responds: upload-pack: not our ref"],
    );
}

#[tokio::test]
async fn logins_and_tokens_are_sent_to_the_repository_only() {
    let shared = with_charts();
    let own = Arc::clone(&shared);
    let server = Server::http(move |head| match head.text("Authorization") {
        "" => status(401, &[("WWW-Authenticate", "Basic realm=\"git\"")]),
        _ => reply(&own, head),
    })
    .await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    let poll = resolver.git(&anonymous(), &chart, None).await;
    assert_fails(poll, Reason::Unauthorized, &["spec.chartSource.git.secretRef"]);
    changed(resolver.git(&login(&server, "u"), &chart, None).await);
    let token = Access {
        bearer_token: Some(format!("{PASSWORD}\n")),
        login: None,
        ..login(&server, "u")
    };
    changed(resolver.git(&token, &chart, None).await);
    let sent = server.authorizations();
    assert_eq!(sent[0], "");
    assert!(sent[1..5].iter().all(|value| *value == basic("u")), "{sent:?}");
    assert!(
        sent[5..]
            .iter()
            .all(|value| *value == format!("Bearer {PASSWORD}")),
        "{sent:?}"
    );

    // To the target of a redirect none is sent, and it is requested there from then on.
    let other = serve(&shared).await;
    let to = other.url();
    let redirect =
        Server::http(move |head| status(301, &[("Location", &format!("{to}{}", head.target))])).await;
    changed(
        resolver
            .git(&login(&redirect, "u"), &at(&redirect, "charts/web"), None)
            .await,
    );
    assert_eq!(redirect.lines(), [GREETING]);
    assert_eq!(other.authorizations(), ["", "", "", ""]);
}

#[tokio::test]
async fn the_recorded_version_stays_while_the_chart_is_the_same() {
    let shared = with_charts();
    let server = serve(&shared).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "charts/web"));
    let version = async |version: Option<&ChartVersion>, changed_digest: &str| {
        let deployed = DeployedChart {
            version,
            changed_digest,
        };
        resolver
            .git_version(&anonymous(), &chart, deployed)
            .await
            .unwrap()
    };
    let first = version(None, "").await;
    let (repo, commit) = first.url.rsplit_once('#').unwrap();
    assert_eq!(
        (repo, commit.len()),
        (&*format!("git+{}/g/n.git", server.url()), 40)
    );
    let before = server.lines().len();
    assert_eq!(version(Some(&first), "").await, first);
    assert_eq!(server.lines().len(), before + 1, "nothing but references");
    let archive = resolver.git_archive(&anonymous(), &chart, &first).await.unwrap();
    assert_eq!(archive.content.to_string(), first.digest);
    // A record of another form is read as none, and what has changed cannot be had.
    let other = ChartVersion {
        digest: "sha256:0123".to_owned(),
        ..first.clone()
    };
    assert_eq!(version(Some(&other), "").await, first);
    let gone = resolver.git_archive(&anonymous(), &chart, &other).await;
    assert!(matches!(gone, Err(GitError::Changed { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_request_with_a_body_is_repeated_only_as_it_is() {
    for (code, is_repeated) in [(307, true), (308, true), (301, false), (302, false), (303, false)] {
        let shared = with_charts();
        let server = Server::http(move |head| {
            let moved = head.target.strip_prefix("/moved");
            match (&*head.method, moved) {
                (_, Some(target)) => {
                    let mut head = head.clone();
                    head.target = target.to_owned();
                    reply(&shared, &head)
                }
                ("GET", None) => reply(&shared, head),
                _ => status(code, &[("Location", &format!("/moved{}", head.target))]),
            }
        })
        .await;
        let poll = TestResolver::new()
            .git(&login(&server, "u"), &at(&server, "charts/web"), None)
            .await;
        if is_repeated {
            changed(poll);
            let requests = server.requests();
            let moved = requests.iter().filter(|head| head.target.starts_with("/moved"));
            assert!(moved.clone().count() > 0 && moved.clone().all(|head| !head.body.is_empty()));
        } else {
            assert_fails(poll, Reason::RepositoryError, &["would lose the body"]);
        }
    }
}

#[tokio::test]
async fn what_is_no_git_server_is_refused() {
    let pages: [(u16, &str, Reason, &[&str]); 3] = [
        (200, "<html>Log in</html>", Reason::RepositoryError, &["web page"]),
        (503, "", Reason::RepositoryError, &["503"]),
        (
            200,
            "000eversion 2\n",
            Reason::RepositoryError,
            &["ends too early"],
        ),
    ];
    for (code, body, reason, expected) in pages {
        let server = Server::http(move |_| response(code, &[], body)).await;
        let poll = TestResolver::new()
            .git(&anonymous(), &at(&server, ""), None)
            .await;
        assert_fails(poll, reason, expected);
    }
    let server = Server::http(|_| status(302, &[("Location", "/login")])).await;
    let poll = TestResolver::new()
        .git(&anonymous(), &at(&server, ""), None)
        .await;
    assert_fails(poll, Reason::RepositoryError, &["redirects"]);
}

/// The response may be that of a server which the user who reads the message cannot reach.
#[tokio::test]
async fn nothing_of_a_response_of_another_host_is_quoted() {
    let internal = Server::http(|_| response(200, &[], "0013ERR geheim text")).await;
    let to = internal.url();
    let server =
        Server::http(move |head| status(302, &[("Location", &format!("{to}{}", head.target))])).await;
    let poll = TestResolver::new()
        .git(&anonymous(), &at(&server, ""), None)
        .await;
    assert_fails(poll, Reason::RepositoryError, &["another host"]);
}

#[tokio::test]
async fn a_pack_that_ends_early_or_finds_no_memory_is_retried() {
    let shared = with_charts();
    let own = Arc::clone(&shared);
    let server = Server::http(move |head| {
        let mut reply = reply(&own, head);
        if head.body.starts_with(b"0012command=fetch")
            && let Some(Action::Write(body)) = reply.last_mut()
        {
            body.truncate(body.len() - 40);
            reply.push(Action::Close);
        }
        reply
    })
    .await;
    let poll = TestResolver::new()
        .git(&anonymous(), &at(&server, "charts/web"), None)
        .await;
    let error = assert_fails(poll, Reason::ConnectionFailed, &[]);
    assert_eq!(error.class(), Class::Transient(Scope::Repository));

    let server = serve(&shared).await;
    let resolver = TestResolver::with_bounds(&MemoryBounds {
        responses: 2 << 20,
        cache: 1 << 20,
    });
    let poll = resolver.git(&anonymous(), &at(&server, "charts/web"), None).await;
    let error = assert_fails(poll, Reason::Busy, &["in use"]);
    assert_eq!(error.class(), Class::Transient(Scope::Namespace));
}
