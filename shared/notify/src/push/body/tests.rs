//! The documented payloads of each registry, and hostile ones.

use proptest::prelude::*;

use super::*;

fn read(
    receiver_type: ReceiverType,
    events: &[&str],
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Vec<(String, String)>, BodyError> {
    let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    let announcements = announcements(receiver_type, &events, &headers, body)?;
    Ok(announcements
        .into_iter()
        .map(|announcement| (announcement.repository, announcement.tag))
        .collect())
}

macro_rules! payload {
    ($name:literal) => {
        include_bytes!(concat!("testdata/", $name, ".json"))
    };
}

fn pushed(repository: &str, tag: &str) -> Vec<(String, String)> {
    vec![(repository.to_owned(), tag.to_owned())]
}

#[test]
fn documented_payloads_announce_the_repository() {
    use ReceiverType as T;
    let harbor = pushed("harbor.example/charts/web", "1.2.3");
    let quay = pushed("quay.io/charts/web", "1.2.3");
    let nexus = pushed("*/repository/helm-hosted", "1.2.3");
    let acr = pushed("myregistry.azurecr.io/charts/web", "1.2.3");
    let gcr = pushed("us-east1-docker.pkg.dev/my-project/charts/web", "1.2.3");
    let cdevents = pushed("registry.example/charts/web", "1.2.3");
    for (receiver_type, body, expected) in [
        (T::Harbor, &payload!("harbor")[..], harbor.clone()),
        (T::Harbor, payload!("harbor-cloudevents"), harbor),
        (
            T::Harbor,
            payload!("harbor-digest"),
            pushed("harbor.example/charts/web", ""),
        ),
        (T::Harbor, payload!("harbor-delete"), vec![]),
        (
            T::DockerHub,
            payload!("dockerhub"),
            pushed("docker.io/example/web", "1.2.3"),
        ),
        (T::Quay, payload!("quay"), quay.clone()),
        (T::Quay, payload!("quay-map"), quay),
        (T::Quay, payload!("quay-build"), vec![]),
        (T::Nexus, payload!("nexus-component"), nexus),
        (
            T::Nexus,
            payload!("nexus-asset"),
            pushed("*/repository/helm-hosted", ""),
        ),
        (
            T::Nexus,
            payload!("nexus-docker"),
            pushed("*/charts/web", "1.2.3"),
        ),
        (T::Acr, payload!("acr-push"), acr),
        (T::Acr, payload!("acr-chart"), pushed("*/helm/v1/repo", "5.4.0")),
        (T::Acr, payload!("acr-delete"), vec![]),
        (T::Gcr, payload!("gcr"), gcr),
        (T::CdEvents, payload!("cdevents"), cdevents),
        (
            T::CdEvents,
            payload!("cdevents-structured"),
            pushed("charts.example/stable/web", "1.2.3"),
        ),
        (T::CdEvents, payload!("cdevents-golang"), vec![]),
        (
            T::Distribution,
            payload!("distribution"),
            pushed("registry.example:5000/charts/web", "1.2.3"),
        ),
        (T::Distribution, payload!("distribution-pull"), vec![]),
    ] {
        assert_eq!(
            read(receiver_type, &[], &[], body),
            Ok(expected),
            "{receiver_type}"
        );
    }
}

/// The task of a replication names the project. One that sends artifacts has the projects of both registries swapped.
#[test]
fn a_replication_into_harbor_announces_the_project() {
    let pulled = str::from_utf8(payload!("harbor-replication")).unwrap();
    let read = |body: &str| read(ReceiverType::Harbor, &[], &[], body.as_bytes());
    assert_eq!(read(pulled), Ok(pushed("harbor.example/charts/*", "")));
    for status in ["Running", "Error", "Stopped", ""] {
        let other = pulled.replace(
            "\"job_status\": \"Success\"",
            &format!("\"job_status\": \"{status}\""),
        );
        assert_eq!(read(&other), Ok(vec![]), "{status}");
    }
    let sent = str::from_utf8(payload!("harbor-replication-cloudevents")).unwrap();
    let both = [
        pushed("edge.example:8443/charts/*", ""),
        pushed("edge.example:8443/mirror/*", ""),
    ];
    assert_eq!(read(sent), Ok(both.concat()));
    for (from, to) in [("https://harbor.example\",", "\","), ("\"charts\"", "\"*\"")] {
        let error = read(&pulled.replace(from, to));
        assert_eq!(
            error,
            Err(BodyError::Repository("event_data.replication.dest_resource"))
        );
    }
    let none = read(r#"{"type":"REPLICATION","event_data":{}}"#);
    assert_eq!(none, Err(BodyError::Missing("event_data.replication")));
}

#[test]
fn github_names_its_event_in_a_header() {
    let read = |event, events: &[&str], body: &[u8]| {
        read(ReceiverType::GitHub, events, &[("x-github-event", event)], body)
    };
    let package = payload!("github-package");
    let expected = Ok(pushed("ghcr.io/Example/charts/web", "1.2.3"));
    assert_eq!(read("package", &[], package), expected);
    assert_eq!(read("package", &["package"], package), expected);
    assert_eq!(read("package", &["registry_package"], package), Ok(vec![]));
    let without_tag = Ok(pushed("ghcr.io/Example/charts/web", ""));
    assert_eq!(
        read("registry_package", &[], payload!("github-registry-package")),
        without_tag
    );
    assert_eq!(read("ping", &[], payload!("github-ping")), Ok(vec![]));
    assert_eq!(
        read("ping", &["ping", "push"], payload!("github-ping")),
        Ok(vec![])
    );
    let push = str::from_utf8(payload!("github-push")).unwrap();
    assert_eq!(
        read("push", &[], push.as_bytes()),
        Ok(pushed("git+*/Example/charts", ""))
    );
    let tag = push.replace("refs/heads/main", "refs/tags/v1.2.3");
    assert_eq!(
        read("push", &[], tag.as_bytes()),
        Ok(pushed("git+*/Example/charts", "v1.2.3"))
    );
    let deleted = push.replace("\"deleted\": false", "\"deleted\": true");
    assert_eq!(read("push", &[], deleted.as_bytes()), Ok(vec![]));
    assert_eq!(read("push", &["package"], push.as_bytes()), Ok(vec![]));
    assert_eq!(read("push", &[], b"{}"), Err(BodyError::Json));
    assert_eq!(read("push", &["push"], b"anything"), Ok(pushed("", "")));
    assert_eq!(
        announcements(ReceiverType::GitHub, &[], &Headers::default(), package),
        Err(BodyError::Header("X-GitHub-Event"))
    );
}

#[test]
fn gitlab_announces_everything_below_the_project() {
    let read = |event, events: &[&str], body: &[u8]| {
        read(ReceiverType::GitLab, events, &[("X-Gitlab-Event", event)], body)
    };
    let expected = |tag: &str| {
        Ok([
            pushed("*/group/charts/*", tag),
            pushed("*/api/v4/projects/42/*", tag),
            pushed("*/api/v4/projects/group%2Fcharts/*", tag),
        ]
        .concat())
    };
    let pipeline = str::from_utf8(payload!("gitlab-pipeline")).unwrap();
    assert_eq!(read("Pipeline Hook", &[], pipeline.as_bytes()), expected("1.2.3"));
    let running = pipeline.replace("\"success\"", "\"running\"");
    assert_eq!(read("Pipeline Hook", &[], running.as_bytes()), Ok(vec![]));
    let with_git = |tag: &str| {
        let mut all = pushed("git+*/group/charts", tag);
        all.extend(expected(tag).unwrap());
        Ok(all)
    };
    assert_eq!(
        read("Tag Push Hook", &[], payload!("gitlab-tag")),
        with_git("v1.2.3")
    );
    assert_eq!(
        read("Release Hook", &[], payload!("gitlab-release")),
        expected("v1.2.3")
    );
    let push = str::from_utf8(payload!("gitlab-push")).unwrap();
    assert_eq!(
        read("Push Hook", &[], push.as_bytes()),
        Ok(pushed("git+*/group/charts", ""))
    );
    let sha = "\"checkout_sha\": \"da1560886d4f094c3e6c9ef40349f7d38b5d27d7\"";
    let deleted_branch = push.replace(sha, "\"checkout_sha\": null");
    assert_ne!(deleted_branch, push);
    assert_eq!(read("Push Hook", &[], deleted_branch.as_bytes()), Ok(vec![]));
    assert_eq!(read("Push Hook", &["Push Hook"], push.as_bytes()), with_git(""));
    assert_eq!(
        read("Pipeline Hook", &["Pipeline Hook"], pipeline.as_bytes()),
        with_git("1.2.3").map(|mut all: Vec<(String, String)>| {
            all[0].1.clear();
            all
        })
    );
    assert_eq!(
        read("Tag Push Hook", &["Push Hook"], payload!("gitlab-tag")),
        Ok(vec![])
    );
    let deleted = String::from_utf8_lossy(payload!("gitlab-tag")).replace(
        "\"checkout_sha\": \"82b3d5ae55f7080f1e6022629cdb57bfae7cccc7\"",
        "\"checkout_sha\": null",
    );
    assert_eq!(read("Tag Push Hook", &[], deleted.as_bytes()), Ok(vec![]));
}

#[test]
fn gitea_forgejo_and_gogs_announce_the_git_repository() {
    let push = str::from_utf8(payload!("gitea-push")).unwrap();
    let tag = push.replace("refs/heads/main", "refs/tags/v1.2.3");
    let deleted = push.replace("bffeb74224043ba2feb48d137756c8a9331c449a", &"0".repeat(40));
    assert!(deleted.contains("\"after\": \"000"));
    let expected = pushed("git+*/team/charts", "");
    for (header, event, body, expected) in [
        ("X-Gitea-Event", "push", push, Ok(expected.clone())),
        ("X-Gogs-Event", "push", push, Ok(expected)),
        (
            "X-Gitea-Event",
            "push",
            &*tag,
            Ok(pushed("git+*/team/charts", "v1.2.3")),
        ),
        ("X-Gitea-Event", "push", &*deleted, Ok(vec![])),
        ("X-Gitea-Event", "issues", push, Ok(vec![])),
        ("X-Gitea-Event", "push", "{}", Err(BodyError::Json)),
        ("X-Other", "push", push, Err(BodyError::Header("X-Gitea-Event"))),
    ] {
        let read = read(ReceiverType::Gitea, &[], &[(header, event)], body.as_bytes());
        assert_eq!(read, expected, "{header}: {event}");
    }
}

#[test]
fn both_bitbuckets_announce_the_git_repository() {
    let cloud = str::from_utf8(payload!("bitbucket-cloud-push")).unwrap();
    let server = str::from_utf8(payload!("bitbucket-server-push")).unwrap();
    let deleted = |body: &str, from: &str, to: &str| {
        assert!(body.contains(from));
        body.replace(from, to)
    };
    let new = cloud.lines().find(|line| line.contains("\"new\"")).unwrap();
    let deleted_in_cloud = deleted(cloud, new, "\"new\": null,");
    let deleted_on_server = deleted(server, "UPDATE", "DELETE");
    for (event, body, expected) in [
        ("repo:push", cloud, Ok(pushed("git+*/team/charts", ""))),
        ("repo:push", &*deleted_in_cloud, Ok(vec![])),
        ("repo:refs_changed", server, Ok(pushed("git+*/TEAM/charts", ""))),
        ("repo:refs_changed", &*deleted_on_server, Ok(vec![])),
        ("repo:push", server, Err(BodyError::Json)),
        ("diagnostics:ping", r#"{"test":true}"#, Ok(vec![])),
        ("pullrequest:created", cloud, Ok(vec![])),
    ] {
        let read = read(
            ReceiverType::Bitbucket,
            &[],
            &[("X-Event-Key", event)],
            body.as_bytes(),
        );
        assert_eq!(read, expected, "{event}");
    }
    let read = read(ReceiverType::Bitbucket, &[], &[], cloud.as_bytes());
    assert_eq!(read, Err(BodyError::Header("X-Event-Key")));
}

/// `repository_url` has the whole repository of `pkg:oci`, and the registry of `pkg:docker`, as the specification of package URLs says.
/// Some senders name the whole repository for both.
#[test]
fn package_urls_name_the_repository_as_their_type_does() {
    for (id, expected) in [
        (
            "pkg:oci/web@sha256%3A12?repository_url=r.example/charts/web&tag=1",
            "r.example/charts/web",
        ),
        (
            "pkg:docker/charts/web@1?repository_url=r.example",
            "r.example/charts/web",
        ),
        (
            "pkg:docker/web@1?repository_url=https://r.example:5000/",
            "r.example:5000/web",
        ),
        (
            "pkg:docker/web@1?repository_url=r.example/charts",
            "r.example/charts/web",
        ),
        (
            "pkg:docker/charts/web@1?repository_url=r.example/charts/web",
            "r.example/charts/web",
        ),
        (
            "pkg:docker/web@1?repository_url=r.example/charts/web",
            "r.example/charts/web",
        ),
        (
            "pkg:helm/web@1?repository_url=https://r.example/charts",
            "r.example/charts/web",
        ),
    ] {
        let body = format!(
            r#"{{"context":{{"type":"dev.cdevents.artifact.published.0.2.0"}},"subject":{{"id":"{id}"}}}}"#
        );
        let read = read(ReceiverType::CdEvents, &[], &[], body.as_bytes()).unwrap();
        assert_eq!(read[0].0, expected, "{id}");
    }
}

#[test]
fn events_of_cdevents_are_selected_by_type() {
    let read = |events: &[&str], body: &[u8]| {
        read(
            ReceiverType::CdEvents,
            events,
            &[("Ce-Type", "dev.cdevents.x.0.1.0")],
            body,
        )
    };
    let published = payload!("cdevents");
    let expected = pushed("registry.example/charts/web", "1.2.3");
    assert_eq!(
        read(&["dev.cdevents.artifact.published"], published),
        Ok(expected.clone())
    );
    assert_eq!(
        read(&["dev.cdevents.artifact.published.0.2.0"], published),
        Ok(expected.clone())
    );
    assert_eq!(read(&["dev.cdevents.x"], published), Ok(expected));
    assert_eq!(read(&["dev.cdevents.artifact.pub"], published), Ok(vec![]));
    assert_eq!(
        read(&["dev.cdevents.artifact.published"], payload!("cdevents-golang")),
        Ok(pushed("", ""))
    );
}

#[test]
fn a_generic_body_names_a_repository_or_means_all() {
    let read = |body: &[u8]| read(ReceiverType::Generic, &[], &[], body);
    assert_eq!(
        read(br#"{"repository":"r.example/charts/web","tag":"1.2.3"}"#),
        Ok(pushed("r.example/charts/web", "1.2.3"))
    );
    for (repository, expected) in [
        ("oci://r.example/charts/web", pushed("r.example/charts/web", "")),
        (
            "oci://r.example/charts/web:1.2.3",
            pushed("r.example/charts/web", "1.2.3"),
        ),
        ("r.example:5000/web@sha256:12", pushed("r.example:5000/web", "")),
        (
            "https://r.example:8443/stable/",
            pushed("r.example:8443/stable", ""),
        ),
    ] {
        let body = format!(r#"{{"repository":"{repository}"}}"#);
        assert_eq!(read(body.as_bytes()), Ok(expected), "{repository}");
    }
    for body in [
        &b""[..],
        b"{}",
        b"[1]",
        b"text",
        b"\xff\xfe",
        br#"{"repository":{"name":"web"}}"#,
        br#"{"repository":""}"#,
    ] {
        assert_eq!(read(body), Ok(pushed("", "")), "{body:?}");
    }
    for repository in [
        "*",
        "r.example/*",
        "https://user:geheim@r.example/web",
        "ftp://r.example/web",
    ] {
        let body = format!(r#"{{"repository":"{repository}"}}"#);
        let error = read(body.as_bytes()).unwrap_err();
        assert_eq!(error, BodyError::Repository("repository"), "{repository}");
    }
}

#[test]
fn bodies_of_another_form_are_rejected_without_quoting_them() {
    use ReceiverType as T;
    let deep = format!(r#"{{"type":{}"x"{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let many = format!(r#"{{"events":[{}{{}}]}}"#, "{},".repeat(1_000));
    for (receiver_type, body) in [
        (T::Harbor, &b""[..]),
        (T::Harbor, b"null"),
        (T::Harbor, b"\xff\xfe\xfd"),
        (T::Harbor, br#"{"type":"PUSH_ARTIFACT"}"#),
        (T::Harbor, br#"{"type":"PUSH_ARTIFACT","event_data":{}}"#),
        (
            T::Harbor,
            br#"{"type":"PUSH_ARTIFACT","event_data":{"repository":{"repo_full_name":"secret token"}}}"#,
        ),
        (T::Harbor, deep.as_bytes()),
        (T::Harbor, br#"{"type":1e999999}"#),
        (T::DockerHub, b"{}"),
        (T::DockerHub, br#"{"repository":{"repo_name":"../..\n"}}"#),
        (T::Quay, br#"{"updated_tags":["1"]}"#),
        (T::Quay, br#"{"updated_tags":1}"#),
        (T::Nexus, br#"{"action":"CREATED","component":{}}"#),
        (T::Acr, br#"{"action":"push"}"#),
        (T::Gcr, br#"{"message":{"data":"%%%"}}"#),
        (T::Gcr, br#"{"message":{"data":"e30="}}"#),
        (T::CdEvents, b"{}"),
        (T::Distribution, many.as_bytes()),
        (T::Distribution, br#"{"events":{}}"#),
    ] {
        let shown = String::from_utf8_lossy(body.get(..60.min(body.len())).unwrap()).into_owned();
        let error = read(receiver_type, &[], &[], body).expect_err(&shown).to_string();
        assert!(!error.contains("secret") && error.len() < 120, "{error}");
    }
}

#[test]
fn huge_numbers_in_other_fields_are_ignored() {
    let body = br#"{"type":"PULL_ARTIFACT","occur_at":99999999999999999999999999999999999999,"x":1e400}"#;
    assert_eq!(read(ReceiverType::Harbor, &[], &[], body), Ok(vec![]));
}

proptest! {
    #[test]
    fn any_body_is_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..300), event in ".{0,20}") {
        for receiver_type in ReceiverType::ALL {
            let headers = [("X-GitHub-Event", &*event), ("X-Gitlab-Event", &*event)];
            let _ = read(receiver_type, &[&event], &headers, &body);
        }
    }

    /// A payload in which any byte is changed is read or rejected; what it announces is still bounded.
    #[test]
    fn changed_payloads_stay_bounded(at in 0_usize..2_000, byte: u8) {
        use ReceiverType as T;
        for (receiver_type, payload) in [
            (T::Harbor, &payload!("harbor")[..]), (T::Harbor, payload!("harbor-replication")), (T::Quay, payload!("quay")), (T::Gcr, payload!("gcr")),
            (T::Distribution, payload!("distribution")), (T::CdEvents, payload!("cdevents")),
        ] {
            let mut body = payload.to_vec();
            let at = at % body.len();
            body[at] = byte;
            for (repository, tag) in read(receiver_type, &[], &[], &body).unwrap_or_default() {
                prop_assert!(repository.len() <= 520 && tag.len() <= 131);
            }
        }
    }
}
