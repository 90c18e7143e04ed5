//! A server on loopback that responds as a test defines, and records its requests.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use helmops_process::lock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinSet,
};

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It writes these bytes, and closes the connection.
    Bytes(String),
    /// It writes these bytes, and then others without end.
    Endless(String),
    /// It responds with this status to bodies with this text, and accepts others.
    Unless(&'static str, u16),
    /// It never responds.
    Hang,
}

impl Reply {
    /// A response without a body.
    pub fn status(status: u16) -> Self {
        Self::with(status, "")
    }

    /// A response with a body.
    pub fn with(status: u16, body: &str) -> Self {
        Self::Bytes(format!(
            "HTTP/1.1 {status} \r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// A response with a header.
    pub fn header(status: u16, header: &str) -> Self {
        Self::Bytes(format!(
            "HTTP/1.1 {status} \r\n{header}\r\nContent-Length: 0\r\n\r\n"
        ))
    }
}

/// The server; it stops when dropped.
pub struct Endpoint {
    port: u16,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

struct State {
    reply: Mutex<Reply>,
    bodies: Mutex<Vec<Vec<u8>>>,
    written: AtomicU64,
    /// The response to requests that hang.
    released: broadcast::Sender<String>,
}

impl Endpoint {
    /// Starts a server that responds like this.
    pub async fn start(reply: Reply) -> Self {
        Self::at(0, reply).await
    }

    /// The same at a port.
    pub async fn at(port: u16, reply: Reply) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            reply: Mutex::new(reply),
            bodies: Mutex::default(),
            written: AtomicU64::default(),
            released: broadcast::Sender::new(1),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&state)));
        Self {
            port,
            state,
            _tasks: tasks,
        }
    }

    /// A port at which nothing listens.
    pub async fn unused_port() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on, it responds like this.
    pub fn behave(&self, reply: Reply) {
        *lock(&self.state.reply) = reply;
    }

    /// Responds to the requests that hang.
    pub async fn respond(&self, text: &str) {
        while self.state.released.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        let _ = self.state.released.send(text.to_owned());
    }

    /// The bodies of all requests, those that it did not accept included.
    pub fn received(&self) -> Vec<String> {
        let bodies = lock(&self.state.bodies);
        let text = |body: &Vec<u8>| String::from_utf8_lossy(body).into_owned();
        bodies.iter().map(text).collect()
    }

    /// The bytes that it has written.
    pub fn written(&self) -> u64 {
        self.state.written.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

/// Errors of a connection are ignored: tests cause them.
async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let Some(body) = read(&mut stream).await else {
        return;
    };
    let reply = match lock(&state.reply).clone() {
        Reply::Unless(text, status) => {
            let has_text = String::from_utf8_lossy(&body).contains(text);
            Reply::status(if has_text { status } else { 200 })
        }
        reply => reply,
    };
    lock(&state.bodies).push(body);
    let write = async |stream: &mut TcpStream, bytes: &[u8]| {
        stream.write_all(bytes).await?;
        state.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        std::io::Result::Ok(())
    };
    match reply {
        Reply::Bytes(text) => {
            let _ = write(&mut stream, text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Reply::Endless(text) => {
            let _ = write(&mut stream, text.as_bytes()).await;
            while write(&mut stream, &[b'x'; 4 << 10]).await.is_ok() {}
        }
        // Until the client gives up.
        Reply::Unless(..) | Reply::Hang => {
            let mut released = state.released.subscribe();
            tokio::select! {
                _ = stream.read_u8() => {}
                Ok(text) = released.recv() => {
                    let _ = write(&mut stream, text.as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
            }
        }
    }
}

/// The body of a request; `None` if the connection ends before.
async fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let end = head + 4 + length.unwrap_or(0);
            if bytes.len() >= end {
                return Some(bytes[head + 4..end].to_vec());
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
