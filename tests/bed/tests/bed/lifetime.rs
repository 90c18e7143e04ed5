//! No process or file of a control plane is left after its test or `testbed serve` ends.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::FutureExt;
use helmops_bed::cluster::Cluster;
use helmops_bed::control_plane::Options;
use helmops_bed::permit::acquire_permit;
use helmops_bed::process::Process;
use helmops_bed::serve::{Started, Step, Until, serve};
use helmops_bed::test_bed::TestBed;
use helmops_bed::tools::Tools;
use helmops_bed::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");
const CONTROL_PLANE: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];
const SOON: Duration = Duration::from_secs(10);
/// Set for the process that runs `hold_a_test_bed`.
const HOLD: &str = "HELMOPS_HOLD";

#[tokio::test]
async fn the_end_of_standard_input_stops_the_control_plane() {
    let _permit = acquire_permit().await.unwrap();
    let (mut server, cluster) = announced(Command::new(TESTBED).arg("serve")).unwrap();
    running(&cluster, &CONTROL_PLANE).await.unwrap();
    assert_eq!(cluster.pid, server.id());

    drop(server.stdin.take());
    assert!(ended(&mut server).await.unwrap().success());
    assert_eq!(programs_of(&cluster), [""; 0]);
    assert!(!cluster.directory.exists());
}

#[tokio::test]
async fn a_killed_test_leaves_no_process_or_file() {
    let _permit = acquire_permit().await.unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "lifetime::hold_a_test_bed", "--ignored", "--nocapture"])
        .env(HOLD, "1");
    let (mut test, cluster) = announced(&mut test).unwrap();
    running(&cluster, &CONTROL_PLANE).await.unwrap();
    running(&cluster, &["tail"]).await.unwrap();

    test.kill().unwrap();
    test.wait().unwrap();
    eventually("the end of all processes", SOON, async || {
        let remaining = programs_of(&cluster);
        ensure!(remaining.is_empty(), "{remaining:?} still run");
        ensure!(!cluster.directory.exists(), "the folder still exists");
        Ok(())
    })
    .await
    .unwrap();
}

/// The test that the one above kills: it has a control plane and another program.
#[tokio::test]
#[ignore = "part of another test"]
async fn hold_a_test_bed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let bed = TestBed::start(&Options::default()).await.unwrap();
    let mut tail = bed.command("tail".as_ref());
    tail.arg("-f").arg(bed.log("etcd"));
    let _tail = Process::start("tail", tail, &bed.log("tail")).unwrap();
    println!("\n{}", serde_json::to_string::<Cluster>(&bed).unwrap());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_program_that_ends_stops_the_control_plane_and_is_reported() {
    let _permit = acquire_permit().await.unwrap();
    let (server, cluster) = announced(Command::new(TESTBED).arg("serve").stderr(Stdio::piped())).unwrap();
    let [(_, etcd), ..] = processes_of(&cluster)[..] else {
        panic!("no etcd");
    };
    kill_process(etcd, Signal::KILL).unwrap();
    let stderr = failure(server).unwrap();
    assert!(
        stderr.contains("etcd failed: it ended (signal: 9 (SIGKILL)); its log ends with"),
        "{stderr}"
    );
    assert_eq!(programs_of(&cluster), [""; 0]);
}

#[tokio::test]
async fn a_program_that_does_not_start_is_reported_with_its_log() {
    let _permit = acquire_permit().await.unwrap();
    let tools = tools_with("kube-apiserver", "echo wrong flag; exit 3")
        .await
        .unwrap();
    let mut testbed = Command::new(TESTBED);
    let testbed = testbed.arg("serve").env("HELMOPS_TOOLS_DIR", tools.path());
    let server = testbed.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let stderr = failure(server.unwrap()).unwrap();
    let expected = "kube-apiserver failed: it ended (exit status: 3); its log ends with\nwrong flag";
    assert!(stderr.contains(expected), "{stderr}");
}

#[tokio::test]
async fn another_port_is_tried_if_one_is_in_use() {
    let _permit = acquire_permit().await.unwrap();
    let real = Tools::prepare().await.unwrap().etcd();
    let once = "[ -e $0.tried ] || { touch $0.tried; echo 'bind: address already in use'; exit 1; }";
    let tools = tools_with("etcd", &format!("{once}; exec {} \"$@\"", real.display()))
        .await
        .unwrap();
    let (mut server, _) = announced(
        Command::new(TESTBED)
            .arg("serve")
            .env("HELMOPS_TOOLS_DIR", tools.path()),
    )
    .unwrap();
    assert!(tools.path().join("etcd.tried").exists());
    drop(server.stdin.take());
    assert!(ended(&mut server).await.unwrap().success());
}

/// `testbed up` and `down` with their own state folder; the control plane is stopped even after a failure.
struct Background(TempDir);

impl Background {
    /// Returns standard output and standard error.
    fn run(&self, command: &str) -> Result<(String, String)> {
        let mut testbed = Command::new(TESTBED);
        let output = testbed.arg(command).arg("--state").arg(self.0.path()).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok((
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        ))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.run("down");
    }
}

#[tokio::test]
async fn up_status_and_down_report_the_state() {
    let _permit = acquire_permit().await.unwrap();
    let background = Background(TempDir::new().unwrap());
    let testbed = |command| background.run(command).unwrap();
    assert_eq!(testbed("status").0, "not up\n");
    assert_eq!(testbed("down").0, "not up; nothing to do\n");

    let (export, _) = testbed("up");
    let cluster = std::fs::read(background.0.path().join("cluster.json")).unwrap();
    let cluster: Cluster = serde_json::from_slice(&cluster).unwrap();
    assert_eq!(
        export,
        format!("export KUBECONFIG={}\n", cluster.kubeconfig.display())
    );
    cluster
        .kubectl()
        .run(&["get", "namespaces"])
        .await
        .unwrap()
        .ok()
        .unwrap();

    let (again, remark) = testbed("up");
    assert_eq!(again, export);
    assert!(
        remark.contains(&format!("already up, process {}", cluster.pid)),
        "{remark}"
    );
    assert!(
        testbed("status")
            .0
            .starts_with(&format!("up at {}, process {}", cluster.url, cluster.pid))
    );

    assert_eq!(testbed("down").0, "down\n");
    assert_eq!(programs_of(&cluster), [""; 0]);
    assert!(!cluster.directory.exists());
    assert_eq!(testbed("status").0, "not up\n");
}

#[tokio::test]
async fn steps_run_before_the_announcement_and_their_processes_end_with_the_control_plane() {
    let _permit = acquire_permit().await.unwrap();
    let (announce, announced) = mpsc::channel();
    let step: Step = Box::new(|cluster| {
        let mut tail = tokio::process::Command::new("tail");
        tail.arg("-f").arg(cluster.log("etcd"));
        async move {
            cluster
                .kubectl()
                .run(&["create", "namespace", "demo"])
                .await?
                .ok()?;
            let tail = Process::start("tail", tail, &cluster.log("tail"))?;
            running(cluster, &["tail"]).await?;
            Ok(Started {
                processes: vec![tail],
                charts: None,
            })
        }
        .boxed_local()
    });
    let outcome = serve(&Options::default(), Until::Signal, vec![step], |cluster| {
        announce.send((cluster.clone(), programs_of(cluster)))?;
        bail!("stop here")
    })
    .await;
    assert_eq!(outcome.unwrap_err().to_string(), "stop here");
    let (cluster, programs) = announced.recv().unwrap();
    assert!(programs.contains(&"tail".to_owned()), "{programs:?}");
    assert_eq!(programs_of(&cluster), [""; 0]);
}

/// Starts a program that announces a control plane as a line of JSON.
fn announced(command: &mut Command) -> Result<(Child, Cluster)> {
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(server.stdout.take().context("stdout")?);
    let mut lines = output.lines().map_while(Result::ok);
    let line = lines
        .find(|line| line.starts_with('{'))
        .context("there is no announcement")?;
    Ok((server, serde_json::from_str(&line)?))
}

async fn ended(server: &mut Child) -> Result<ExitStatus> {
    let ended = async || server.try_wait()?.context("it still runs");
    eventually("the end of testbed serve", SOON, ended).await
}

/// The standard error of a program that fails by itself, with its standard input open.
fn failure(mut server: Child) -> Result<String> {
    let stderr = std::io::read_to_string(server.stderr.take().context("stderr")?)?;
    let status = server.wait()?;
    ensure!(status.code() == Some(1), "{status}: {stderr}");
    Ok(stderr)
}

/// Waits for these programs: a process exists shortly before its command line is set.
async fn running(cluster: &Cluster, programs: &[&str]) -> Result<()> {
    eventually("all programs", SOON, async || {
        let found = programs_of(cluster);
        let missing = programs
            .iter()
            .find(|program| !found.iter().any(|name| name == *program));
        ensure!(missing.is_none(), "no {missing:?} among {found:?}");
        Ok(())
    })
    .await
}

fn programs_of(cluster: &Cluster) -> Vec<String> {
    processes_of(cluster).into_iter().map(|(name, _)| name).collect()
}

/// The processes whose command line names the folder of this control plane, by name.
fn processes_of(cluster: &Cluster) -> Vec<(String, Pid)> {
    let folder = cluster.directory.to_string_lossy();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<_> = entries
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let program = Path::new(line.split('\0').next()?).file_name()?.to_str()?;
            line.contains(&*folder).then(|| (program.to_owned(), pid))
        })
        .collect();
    processes.sort_by(|(one, _), (other, _)| one.cmp(other));
    processes
}

/// The real tools, with one of them replaced by a shell script.
async fn tools_with(program: &str, script: &str) -> Result<TempDir> {
    let etcd = Tools::prepare().await?.etcd();
    let folder = tempfile::tempdir()?;
    for tool in std::fs::read_dir(etcd.parent().context("the path of etcd has no folder")?)? {
        let tool = tool?;
        symlink(tool.path(), folder.path().join(tool.file_name()))?;
    }
    let path = folder.path().join(program);
    std::fs::remove_file(&path)?;
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    Ok(folder)
}
