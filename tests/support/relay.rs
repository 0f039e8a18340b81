//! A network between client and server that loses requests and answers, connection by connection.

use crate::wire::Wire;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of the first answer on a connection, or already of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is delivered, like all that follow.
    None,
    /// So many bytes of the request arrive, then both ends see a reset.
    Request(usize),
    /// The client sees a reset instead of it.
    Reset,
    /// The client sees the connection end after so many bytes of it.
    Cut(usize),
}

/// Forwards bytes to one address.
#[derive(Debug)]
pub struct Relay {
    addr: SocketAddr,
    plan: Arc<Mutex<VecDeque<Loss>>>,
    requests: Arc<watch::Sender<usize>>,
}

impl Relay {
    /// Between whoever connects and `server`.
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("its address");
        let (plan, requests) = (Arc::<Mutex<VecDeque<Loss>>>::default(), Arc::new(watch::Sender::new(0)));
        let relay = Self { addr, plan: plan.clone(), requests: requests.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let loss = plan.lock().expect("the plan").pop_front().unwrap_or(Loss::None);
                tokio::spawn(carry(client, server, loss, requests.clone()));
            }
        });
        relay
    }

    /// The next connections suffer this, one after the other; all later ones nothing.
    pub fn plan(&self, losses: &[Loss]) {
        self.plan.lock().expect("the plan").extend(losses);
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests clients sent.
    pub fn requests(&self) -> usize {
        *self.requests.borrow()
    }

    /// Waits until clients have sent so many requests.
    pub async fn sent(&self, count: usize) {
        let what = format!("{count} requests from the client");
        let mut requests = self.requests.subscribe();
        crate::patience::patiently(&what, requests.wait_for(|sent| *sent >= count)).await.expect("the relay");
    }
}

async fn carry(client: TcpStream, server: SocketAddr, loss: Loss, requests: Arc<watch::Sender<usize>>) {
    let Ok(server) = TcpStream::connect(server).await else { return Wire::new(client).reset() };
    if let Loss::Request(arriving) = loss {
        return tear(client, server, arriving).await;
    }
    let (mut client_reads, mut client_writes) = client.into_split();
    let (mut server_reads, mut server_writes) = server.into_split();
    let upwards = tokio::spawn(async move {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = client_reads.read(&mut bytes).await {
            let begun = bytes[..n].windows(6).filter(|window| window == b"POST /").count();
            requests.send_modify(|sent| *sent += begun);
            if server_writes.write_all(&bytes[..n]).await.is_err() {
                break;
            }
        }
        client_reads
    });
    let mut bytes = vec![0; 64 * 1024];
    let mut loss = loss;
    while let Ok(n @ 1..) = server_reads.read(&mut bytes).await {
        let lost = std::mem::replace(&mut loss, Loss::None);
        let delivered = match lost {
            Loss::None | Loss::Request(_) => n,
            Loss::Reset => 0,
            Loss::Cut(at) => at.min(n),
        };
        let written = client_writes.write_all(&bytes[..delivered]).await;
        if lost == Loss::Reset {
            let zero = Some(std::time::Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(client_writes.as_ref(), zero).expect("set SO_LINGER");
            client_writes.forget();
            upwards.abort();
            let _ = upwards.await;
            return;
        }
        if written.is_err() || lost != Loss::None {
            break;
        }
    }
    upwards.abort();
}

/// Carries so much of what the client sends, and resets both connections.
async fn tear(mut client: TcpStream, mut server: TcpStream, arriving: usize) {
    let mut bytes = vec![0; arriving];
    let mut read = 0;
    while read < arriving
        && let Ok(n @ 1..) = client.read(&mut bytes[read..]).await
    {
        read += n;
    }
    let _ = server.write_all(&bytes[..read]).await;
    Wire::new(client).reset();
    Wire::new(server).reset();
}
