//! A child process: bounded output, a deadline, and an end for the whole process group.
//!
//! The child leads a process group of its own, so that its own children end with it. It ends when the agent does: its standard input
//! is a pipe that the agent holds open, and our Helm ends its group when the pipe is closed (`agent/helm/main.go`). The kernel's
//! way, `PR_SET_PDEATHSIG`, needs unsafe code here, and follows the thread that started the child, not the process.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
    time::Duration,
};

use helmops_kube::lease::Leadership;
use rustix::{
    io::Errno,
    process::{Pid, Resource, Rlimit, Signal, kill_process, kill_process_group, prlimit},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::run_scope::RunScope;

/// How long the outputs may stay open after the child has ended: one of its children holds them then.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
/// How long a child that waits for a hook may keep what others need ([`ChildProcess::crowd_out`]).
pub const CROWDED: Duration = Duration::from_mins(4);
/// Bytes of the output that are read at a time.
const CHUNK: usize = 8 << 10;

/// What a child may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may run.
    pub deadline: Duration,
    /// Time between SIGTERM and SIGKILL, while this replica is the leader.
    pub grace: Duration,
    /// Bytes of standard output that are kept, from the start.
    pub stdout: usize,
    /// Bytes of standard error that are kept, from the end.
    pub stderr: usize,
    /// Bytes of memory of its own that it, and each child of it, may use; `None` for no limit.
    pub memory: Option<u64>,
}

/// A child that runs, for those that limit it. It leads its process group.
#[derive(Debug, Default)]
pub struct ChildProcess {
    /// 0 for none.
    id: AtomicI32,
    crowded_out: CancellationToken,
}

impl ChildProcess {
    /// Ends the child: others need what it uses.
    pub fn crowd_out(&self) {
        self.crowded_out.cancel();
    }

    /// Whether it was ended because others need what it uses.
    pub fn is_crowded_out(&self) -> bool {
        self.crowded_out.is_cancelled()
    }

    /// Lets our Helm return memory that it does not need (`agent/helm/main.go`).
    pub fn collect_garbage(&self) {
        if let Some(child) = self.pid() {
            // It may have ended meanwhile.
            let _ = kill_process(child, Signal::USR1);
        }
    }

    /// Bytes of memory that the child uses now, without its own children; `None` if that is not known.
    pub fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?.as_raw_nonzero())).ok()?;
        let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes << 10)
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.id.load(Relaxed))
    }
}

/// What ends a child before its own end.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'e> {
    /// The child.
    pub child: &'e ChildProcess,
    /// Cancelled when the agent stops, or the result is of no use any more.
    pub stop: &'e RunScope,
    /// How long a child may run at least although its result is of no use: to interrupt what ends soon would only do harm.
    pub brief: Duration,
    /// The child ends when this replica is the leader no longer: another one continues its work.
    pub leadership: &'e Leadership,
    /// Time between the end of leadership and SIGKILL: another replica is not the leader yet.
    pub grace: Duration,
}

impl Ending<'_> {
    /// Waits for what ends a child that was started at this time.
    async fn begins(&self, started: Instant) -> End {
        let superseded = async {
            self.stop.superseded.cancelled().await;
            sleep_until(started + self.brief).await;
        };
        tokio::select! {
            () = self.stop.agent.cancelled() => End::Stopped,
            () = self.leadership.until_lost() => End::Stopped,
            () = superseded => End::Superseded,
            () = self.child.crowded_out.cancelled() => End::CrowdedOut,
        }
    }

    /// Waits for the end of the time to end by itself.
    async fn is_over(&self, grace: Duration) {
        let lost = async {
            self.leadership.until_lost().await;
            sleep(self.grace).await;
        };
        tokio::select! {
            () = sleep(grace) => {}
            () = lost => {}
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal that this agent did not send: for example, the kernel was out of memory.
    Killed(i32),
    /// It was ended because of its deadline.
    Deadline,
    /// It was ended because the agent stops, or is the leader no longer.
    Stopped,
    /// It was ended because its result is of no use any more.
    Superseded,
    /// It was ended because others need what it uses.
    CrowdedOut,
}

/// What is left of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub end: End,
    /// The start of its standard output.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
}

/// Runs a command until its end, its deadline, or what ends it before. `input` is written to its standard input, which stays open. If the
/// future is dropped, the group is killed.
///
/// # Errors
/// If it cannot be started.
pub async fn run(
    mut command: Command,
    input: &[u8],
    limits: Limits,
    ending: Ending<'_>,
) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    // Open as long as the child runs. It is closed after the group is killed: before, its end would let the child record an interruption.
    let mut parent_pipe = child.stdin.take();
    let group = Group::of(&child, ending.child);
    if let Some(memory) = limits.memory {
        group.limit_memory(memory)?;
    }
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let outputs = async {
        let write = async {
            if let Some(pipe) = &mut parent_pipe {
                // A child that does not read it says why.
                let _ = pipe.write_all(input).await;
            }
        };
        let (stdout, stderr, ()) = tokio::join!(
            read(stdout, Kept::start(limits.stdout)),
            read(stderr, Kept::end(limits.stderr)),
            write
        );
        (stdout, stderr)
    };
    let mut outputs = std::pin::pin!(outputs);
    let mut read = None;
    let (status, cause) = {
        let mut ended = std::pin::pin!(wait(&mut child, &group, limits, ending));
        // The outputs are read meanwhile, or the child would wait for that.
        loop {
            tokio::select! {
                ended = &mut ended => break ended?,
                all = &mut outputs, if read.is_none() => read = Some(all),
            }
        }
    };
    if read.is_none() {
        read = timeout(OUTPUT_GRACE, &mut outputs).await.ok();
    }
    if read.is_none() {
        group.signal(Signal::KILL);
        read = timeout(OUTPUT_GRACE, outputs).await.ok();
    }
    // Nothing of the group is left that holds an output; its ID may belong to another process soon.
    group.forget();
    let (stdout, stderr) = read.unwrap_or_default();
    Ok(Output {
        // It may have completed in spite of the signal.
        end: cause
            .filter(|_| !status.success())
            .unwrap_or_else(|| end_of(status)),
        stdout,
        stderr,
    })
}

/// Waits for the end, and brings it about at the deadline or when something else ends it.
async fn wait(
    child: &mut Child,
    group: &Group<'_>,
    limits: Limits,
    ending: Ending<'_>,
) -> io::Result<(ExitStatus, Option<End>)> {
    let started = Instant::now();
    let deadline = started + limits.deadline;
    let cause = tokio::select! {
        biased;
        status = child.wait() => return Ok((status?, None)),
        () = sleep_until(deadline) => End::Deadline,
        cause = ending.begins(started) => cause,
    };
    group.signal(Signal::TERM);
    tokio::select! {
        biased;
        status = child.wait() => return Ok((status?, Some(cause))),
        () = ending.is_over(limits.grace) => group.signal(Signal::KILL),
    }
    Ok((child.wait().await?, Some(cause)))
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Killed(signal.unwrap_or_default()),
    }
}

/// The process group of a child. It is killed when this value is dropped, unless it is forgotten.
struct Group<'c>(&'c ChildProcess);

impl<'c> Group<'c> {
    /// The group has the ID of the child.
    fn of(child: &Child, process: &'c ChildProcess) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        process.id.store(id.unwrap_or_default(), Relaxed);
        Self(process)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0.pid() {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Limits the data of the child, which has just started: Go programs take memory in the course of their work, and end with a message
    /// if they get none. Without a limit of its own, a child that takes too much would end the whole container.
    fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        // Without an ID, the limit would be that of the agent.
        let Some(child) = self.0.pid() else {
            return Ok(());
        };
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        match prlimit(Some(child), Resource::Data, limit) {
            // It has ended already.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn forget(&self) {
        self.0.id.store(0, Relaxed);
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.forget();
    }
}

/// Bytes of the start that are kept of an output besides its end: a Go program that gets no memory says so first, and lists all that it
/// was doing after that.
const START: usize = 512;

/// A bounded part of an output.
struct Kept {
    /// The start, if the end is kept and does not have it.
    start: Vec<u8>,
    bytes: Vec<u8>,
    limit: usize,
    is_end: bool,
}

impl Kept {
    const fn start(limit: usize) -> Self {
        Self {
            start: Vec::new(),
            bytes: Vec::new(),
            limit,
            is_end: false,
        }
    }

    const fn end(limit: usize) -> Self {
        Self {
            start: Vec::new(),
            bytes: Vec::new(),
            limit,
            is_end: true,
        }
    }

    fn add(&mut self, chunk: &[u8]) {
        if self.is_end {
            self.bytes.extend_from_slice(chunk);
            let surplus = self.bytes.len().saturating_sub(self.limit);
            let dropped = self.bytes.drain(..surplus);
            self.start
                .extend(dropped.take(START.saturating_sub(self.start.len())));
        } else {
            let room = self.limit - self.bytes.len();
            self.bytes.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        }
    }
}

impl Kept {
    fn text(self) -> String {
        // What is printed may be large: valid text is not copied.
        let end = String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if self.start.is_empty() {
            return end;
        }
        format!("{}\n{end}", String::from_utf8_lossy(&self.start))
    }
}

/// Reads an output to its end, so that the child never waits, and keeps a part of it.
async fn read(from: Option<impl AsyncRead + Unpin>, mut kept: Kept) -> String {
    let mut chunk = vec![0; CHUNK];
    if let Some(mut from) = from {
        // An error is an end as well.
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            kept.add(chunk.get(..length).unwrap_or_default());
        }
    }
    kept.text()
}

#[cfg(test)]
mod tests;
