//! nginx as the same reverse proxy, set up the way its documentation recommends for kept connections.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::child::Child;

/// `None` where it is not installed.
pub fn start(folder: &Path, upstream: &str) -> Result<Option<Child>> {
    let Some(nginx) =
        ["nginx", "/usr/sbin/nginx"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok())
    else {
        return Ok(None);
    };
    // Free a moment ago; nginx cannot be given a socket or asked for one.
    let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let place = folder.display();
    let configuration = format!(
        "daemon off; worker_processes auto; pid {place}/nginx.pid; error_log {place}/nginx.log;
events {{ worker_connections 2048; }}
http {{
    access_log off; tcp_nodelay on; keepalive_requests 100000000;
    client_body_temp_path {place}/client; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
    upstream behind {{ server {upstream}; keepalive 256; keepalive_requests 100000000; }}
    server {{
        listen {addr};
        location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
    }}
}}
"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let process = Command::new(nginx)
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start nginx")?;
    let child = Child::at(process, addr);
    if !listens(addr) {
        bail!("nginx does not listen: {}", fs::read_to_string(folder.join("nginx.log")).unwrap_or_default());
    }
    Ok(Some(child))
}

fn listens(addr: SocketAddr) -> bool {
    (0..100).any(|_| {
        let open = TcpStream::connect_timeout(&addr, Duration::from_millis(100)).is_ok();
        if !open {
            std::thread::sleep(Duration::from_millis(30));
        }
        open
    })
}
