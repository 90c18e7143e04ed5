//! A chart repository: an index with one chart, and its archive.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use flate2::{Compression, write::GzEncoder};
use helmops_process::lock;
use serde_json::json;
use tar::{Builder, EntryType, Header};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

pub const CHART_YAML: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

/// The archive of a chart with these files; a path that ends with `@` is a symbolic link.
pub fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        if let Some(path) = path.strip_suffix('@') {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            out.append_link(&mut header, path, text).unwrap();
        } else {
            header.set_size(text.len() as u64);
            out.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
    }
    out.into_inner().unwrap().finish().unwrap()
}

/// A repository; it stops when dropped.
pub struct Repository {
    port: u16,
    archive: Arc<Mutex<Vec<u8>>>,
    downloads: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Repository {
    pub async fn start(archive: Vec<u8>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (archive, downloads) = (Arc::new(Mutex::new(archive)), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&archive), Arc::clone(&downloads)));
        Self {
            port,
            archive,
            downloads,
            _tasks: tasks,
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn publish(&self, archive: Vec<u8>) {
        *lock(&self.archive) = archive;
    }

    /// How often an archive was downloaded.
    pub fn downloads(&self) -> usize {
        self.downloads.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, archive: Arc<Mutex<Vec<u8>>>, downloads: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(reply(stream, lock(&archive).clone(), Arc::clone(&downloads)));
    }
}

/// Errors are ignored: the client may have ended.
async fn reply(mut stream: TcpStream, archive: Vec<u8>, downloads: Arc<AtomicUsize>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let body = if head.contains("/index.yaml ") {
        let version = |version: &str| json!({ "name": "web", "version": version, "urls": ["web.tgz"] });
        let entries = json!({ "web": [version("1.0.0"), version("2.0.0")] });
        json!({ "apiVersion": "v1", "entries": entries })
            .to_string()
            .into_bytes()
    } else {
        downloads.fetch_add(1, Ordering::Relaxed);
        archive
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
}
