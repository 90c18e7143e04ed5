use std::fs;
use std::os::unix::fs::PermissionsExt;

use helmops_certs::causes::with_causes;

use super::*;

/// Runs the command line and returns its output.
fn call(args: &[&str], now: SystemTime) -> Result<String, CommandError> {
    let cli = Cli::try_parse_from([&["helmops-certs", "issue"], args].concat()).expect("arguments parse");
    let mut out = Vec::new();
    run(&cli.command, now, &mut out).map(|()| String::from_utf8(out).expect("text"))
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn pair_in(dir: &Path) -> helmops_certs::ServingPair {
    let (cert, key) = (
        fs::read(dir.join("tls.crt")).unwrap(),
        fs::read(dir.join("tls.key")).unwrap(),
    );
    let cert = PemFile {
        name: "tls.crt",
        bytes: &cert,
    };
    helmops_certs::ServingPair::from_pem(
        cert,
        PemFile {
            name: "tls.key",
            bytes: &key,
        },
    )
    .unwrap()
}

#[test]
fn issue_writes_a_pair_that_loads_and_prints_the_next_commands() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new");
    let now = SystemTime::now();
    let text = call(&["--days", "30", "--out", out.to_str().unwrap()], now).unwrap();
    assert_eq!(names_in(&out), ["ca.crt", "tls.crt", "tls.key"]);
    assert_eq!(
        (mode(&out.join("tls.key")), mode(&out.join("tls.crt")) & 0o600),
        (0o600, 0o600)
    );
    let pair = pair_in(&out);
    assert_eq!(pair.names(), ["helmops-webhook.helmops-system.svc"]);
    assert_eq!(pair.validity(now), helmops_certs::Validity::Valid);
    let days = |n: u64| Duration::from_hours(24 * n);
    assert_eq!(
        pair.validity(now + days(30) - Duration::from_secs(2)),
        helmops_certs::Validity::Valid
    );
    assert_eq!(pair.validity(now + days(30)), helmops_certs::Validity::Expired);
    let secret = format!(
        "kubectl -n helmops-system create secret tls helmops-webhook-own-tls --cert={0}/tls.crt --key={0}/tls.key",
        out.display()
    );
    assert!(text.lines().any(|line| line.trim() == secret), "{text}");
    assert!(text.contains(&format!("  {}/ca.crt\n", out.display())), "{text}");
}

#[test]
fn names_addresses_and_namespace_come_from_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let now = SystemTime::now();
    let args = [
        "--dns-name",
        "a.b.svc",
        "--dns-name",
        "c.d.svc",
        "--ip",
        "10.0.0.1",
        "--out",
        out,
    ];
    call(&args, now).unwrap();
    assert_eq!(pair_in(dir.path()).names(), ["a.b.svc", "c.d.svc", "10.0.0.1"]);
    let text = call(&["--namespace", "fleet", "--out", out, "--force"], now).unwrap();
    assert_eq!(pair_in(dir.path()).names(), ["helmops-webhook.fleet.svc"]);
    assert!(text.contains("kubectl -n fleet create"), "{text}");
}

#[test]
fn existing_files_are_overwritten_only_with_force_and_get_new_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let (out, key) = (dir.path().to_str().unwrap(), dir.path().join("tls.key"));
    fs::write(&key, "existing").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o666)).unwrap();
    let error = call(&["--out", out], SystemTime::now()).unwrap_err();
    let text = with_causes(&error);
    assert!(
        text.contains("tls.key exist already") && text.contains("--force"),
        "{text}"
    );
    assert_eq!(names_in(dir.path()), ["tls.key"], "nothing else was written");
    assert_eq!(fs::read_to_string(&key).unwrap(), "existing");
    call(&["--out", out, "--force"], SystemTime::now()).unwrap();
    assert_eq!(mode(&key), 0o600);
    pair_in(dir.path());
}

#[test]
fn a_stored_ca_key_issues_the_next_certificate_for_the_same_ca_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let now = SystemTime::now();
    call(&["--out", out, "--keep-ca-key", "--days", "30"], now).unwrap();
    let (ca_cert, ca_key) = (dir.path().join("ca.crt"), dir.path().join("ca.key"));
    assert_eq!(mode(&ca_key), 0o600);
    let (bundle, first) = (
        fs::read(&ca_cert).unwrap(),
        fs::read(dir.path().join("tls.crt")).unwrap(),
    );
    let ca = [
        "--ca-cert",
        ca_cert.to_str().unwrap(),
        "--ca-key",
        ca_key.to_str().unwrap(),
    ];
    call(
        &[&["--out", out, "--force", "--days", "90"], &ca[..]].concat(),
        now,
    )
    .unwrap();
    assert_eq!(fs::read(&ca_cert).unwrap(), bundle);
    assert_ne!(fs::read(dir.path().join("tls.crt")).unwrap(), first);
    let later = now + Duration::from_hours(365 * 24);
    let too_long = call(
        &[&["--out", out, "--force", "--days", "3649"], &ca[..]].concat(),
        later,
    )
    .unwrap_err();
    assert!(
        with_causes(&too_long).contains("outlive its CA by 8737 hours"),
        "{too_long:?}"
    );
}

#[test]
fn a_new_ca_is_never_written_next_to_the_key_of_an_old_ca() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    call(&["--out", out, "--keep-ca-key"], SystemTime::now()).unwrap();
    let before = fs::read(dir.path().join("ca.crt")).unwrap();
    let error = call(&["--out", out, "--force"], SystemTime::now()).unwrap_err();
    assert!(
        with_causes(&error).contains("ca.key belongs to the existing files"),
        "{error:?}"
    );
    assert_eq!(fs::read(dir.path().join("ca.crt")).unwrap(), before);
}

#[test]
fn contradicting_or_invalid_arguments_are_rejected() {
    for args in [
        &["--out", "x", "--ca-cert", "a"][..],
        &["--out", "x", "--ca-cert", "a", "--ca-key", "b", "--keep-ca-key"],
        &["--out", "x", "--days", "0"],
        &["--out", "x", "--days", "99999999999"],
        &["--out", "x", "--ip", "ten"],
        &[],
    ] {
        let all = [&["helmops-certs", "issue"], args].concat();
        assert!(Cli::try_parse_from(all).is_err(), "{args:?}");
    }
}

#[test]
fn the_longest_allowed_lifetime_is_issued() {
    let dir = tempfile::tempdir().unwrap();
    call(
        &["--out", dir.path().to_str().unwrap(), "--days", "3649"],
        SystemTime::now(),
    )
    .unwrap();
}

#[test]
fn paths_are_quoted_for_the_shell() {
    for (text, quoted) in [
        ("/a/b-c.crt", "/a/b-c.crt"),
        ("a b", "'a b'"),
        ("it's", r"'it'\''s'"),
        ("", "''"),
    ] {
        assert_eq!(shell_quoted(text), quoted);
    }
}
