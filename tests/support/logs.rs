//! What a process wrote, and waiting for it to write something.

use crate::patience::patiently;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// The stream so far; clones see the same.
#[derive(Clone, Debug)]
pub struct Logs {
    text: watch::Receiver<(String, bool)>,
}

impl Logs {
    /// Collects until the end of the stream.
    pub fn of(mut stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, text) = watch::channel((String::new(), false));
        tokio::spawn(async move {
            let mut bytes = [0; 8192];
            while let Ok(n @ 1..) = stream.read(&mut bytes).await {
                sender.send_modify(|(text, _)| text.push_str(&String::from_utf8_lossy(&bytes[..n])));
            }
            sender.send_modify(|(_, ended)| *ended = true);
        });
        Self { text }
    }

    /// Everything so far.
    pub fn text(&self) -> String {
        self.text.borrow().0.clone()
    }

    /// The first line that contains this; `None` if the stream ended without it.
    pub async fn line_with(&self, what: &str) -> Option<String> {
        let find = |text: &str| {
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            complete.lines().find(|line| line.contains(what)).map(str::to_owned)
        };
        let mut text = self.text.clone();
        let seen = patiently(what, text.wait_for(|(text, ended)| *ended || find(text).is_some())).await;
        let seen = seen.map(|seen| find(&seen.0));
        seen.unwrap_or_else(|_| find(&self.text()))
    }

    /// Everything, once the stream has ended.
    pub async fn whole(&self) -> String {
        let mut text = self.text.clone();
        let _ = patiently("the end of a stream", text.wait_for(|(_, ended)| *ended)).await;
        self.text()
    }
}
