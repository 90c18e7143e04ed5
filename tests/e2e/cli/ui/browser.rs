//! Chromium without a window, driven by its `DevTools` protocol over two pipes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_bed::process::Process;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};
use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::SOON;

/// The names of the program, in Debian and elsewhere.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Browser {
    _process: Process,
    commands: Sender,
    messages: Receiver,
    buffer: Vec<u8>,
    last: u64,
    session: String,
}

impl Browser {
    /// Starts it. A browser that is missing is an error: nothing is skipped.
    pub async fn start(folder: &Path) -> Result<Self> {
        let program = PROGRAMS.iter().find(|program| is_installed(program));
        let program = program.context("Chromium is not installed; `make ui-test` installs it")?;
        let [commands, messages] = ["commands", "messages"].map(|name| folder.join(name));
        let made = Command::new("mkfifo")
            .args([&commands, &messages])
            .status()
            .await?;
        ensure!(made.success(), "mkfifo failed");
        // Chromium reads commands from descriptor 3 and writes messages to descriptor 4.
        let script = format!(
            "exec {program} --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --user-data-dir='{0}' \
             --remote-debugging-pipe about:blank 3<'{1}' 4>'{2}'",
            folder.join("profile").display(),
            commands.display(),
            messages.display()
        );
        let mut options = OpenOptions::new();
        // A pipe that is open in both directions blocks neither side.
        options.read_write(true);
        let (sender, receiver) = (options.open_sender(&commands)?, options.open_receiver(&messages)?);
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let process = Process::start("chromium", command, &folder.join("chromium.log"))?;
        let mut browser = Self {
            _process: process,
            commands: sender,
            messages: receiver,
            buffer: Vec::new(),
            last: 0,
            session: String::new(),
        };
        let target = browser
            .call("Target.createTarget", json!({ "url": "about:blank" }))
            .await?;
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attached).await?;
        browser.session = session["sessionId"].as_str().context("no session")?.to_owned();
        for domain in ["Page.enable", "Runtime.enable"] {
            browser.call(domain, json!({})).await?;
        }
        Ok(browser)
    }

    /// Sends a command and waits for its result.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = serde_json::to_vec(&command)?;
        bytes.push(0);
        timeout(SOON, async {
            self.commands.write_all(&bytes).await?;
            loop {
                let message = self.message().await?;
                if message["id"] != id {
                    continue;
                }
                if !message["error"].is_null() {
                    bail!("{method}: {}", message["error"]);
                }
                return Ok(message["result"].clone());
            }
        })
        .await
        .with_context(|| format!("{method} takes too long"))?
    }

    async fn message(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == 0) {
                let message = serde_json::from_slice(&self.buffer[..end])?;
                self.buffer.drain(..=end);
                return Ok(message);
            }
            let length = self.messages.read_buf(&mut self.buffer).await?;
            ensure!(length > 0, "Chromium has ended");
        }
    }

    /// Opens a page.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        // A page that differs in its fragment only would not be loaded.
        self.call("Page.navigate", json!({ "url": "about:blank" }))
            .await?;
        self.call("Page.navigate", json!({ "url": url })).await?;
        Ok(())
    }

    /// The value of an expression in the page; a promise is awaited.
    pub async fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params).await?;
        ensure!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        Ok(result["result"]["value"].clone())
    }

    /// Waits until an expression in the page is true.
    pub async fn until(&mut self, expression: &str) {
        let mut text = Value::Null;
        let end = tokio::time::Instant::now() + SOON;
        while tokio::time::Instant::now() < end {
            if self.value(expression).await.is_ok_and(|value| value == true) {
                return;
            }
            text = self.value("document.body.innerText").await.unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("{expression} does not become true; the page has: {text}");
    }

    /// The width of the window in CSS pixels, the color scheme, and the size of the root font in percent.
    pub async fn look(&mut self, width: u32, scheme: &str, font: u32) -> Result<()> {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" }] });
        self.call("Emulation.setEmulatedMedia", media).await?;
        self.value(&format!("document.documentElement.style.fontSize = '{font}%'"))
            .await?;
        Ok(())
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str, code: u32) -> Result<()> {
        for r#type in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": r#type, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if key == "Enter" {
                event["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Writes a picture of the whole page.
    pub async fn picture(&mut self, file: &Path) -> Result<()> {
        let picture = self
            .call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))
            .await?;
        let bytes = STANDARD.decode(picture["data"].as_str().context("no picture")?)?;
        std::fs::create_dir_all(file.parent().context("no folder")?)?;
        std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
