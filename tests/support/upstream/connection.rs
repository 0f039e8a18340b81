//! One connection of the upstream: reads a request, enters it into the ledger, carries out the reply.

use super::Scripts;
use super::ledger::{Ledger, Received};
use super::reply::{End, Step};
use crate::wire::{Framing, Wire};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

#[derive(Clone, Debug, Default)]
pub(crate) struct Manners {
    pub(crate) reset_reused: bool,
    pub(crate) reset_after_idle: Option<Duration>,
    pub(crate) close_accepted: Option<bool>,
}

pub(crate) async fn serve(
    stream: TcpStream,
    connection: usize,
    manners: Manners,
    scripts: Arc<Scripts>,
    ledger: Ledger,
) {
    let mut wire = Wire::new(stream);
    match manners.close_accepted {
        Some(true) => return wire.reset(),
        Some(false) => return,
        None => {}
    }
    let mut served = 0;
    loop {
        let idle = Instant::now();
        if !matches!(wire.begun().await, Ok(true)) {
            return;
        }
        let stale = manners.reset_after_idle.is_some_and(|limit| served > 0 && idle.elapsed() >= limit);
        if stale || (manners.reset_reused && served > 0) {
            return wire.reset();
        }
        let Some(received) = read(&mut wire, connection).await else { return };
        let received = ledger.enter(received);
        if !received.whole {
            return;
        }
        served += 1;
        let (steps, end) = scripts.reply(&received).render(received.method == "HEAD");
        if !act(&mut wire, steps).await {
            return ledger.hung_up();
        }
        match end {
            End::KeepAlive => {}
            End::Reset => return wire.reset(),
            End::Close => {
                let _ = wire.half_close().await;
                wire.gone().await;
                return ledger.parted();
            }
        }
    }
}

async fn read(wire: &mut Wire, connection: usize) -> Option<Received> {
    let head = wire.head().await.ok().flatten()?;
    let mut words = head.first_line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let body = wire.body(Framing::of_request(&head.headers)).await;
    Some(Received {
        number: 0,
        connection,
        method,
        target,
        headers: head.headers,
        body: body.bytes,
        whole: body.whole,
        trailers: body.trailers,
    })
}

/// False: the other end went away first.
async fn act(wire: &mut Wire, steps: Vec<Step>) -> bool {
    for step in steps {
        let on = match step {
            Step::Bytes(bytes) => wire.write(&bytes).await.is_ok(),
            Step::Pause(pause) => tokio::select! {
                () = wire.gone() => false,
                () = tokio::time::sleep(pause) => true,
            },
            Step::Gate(gate) => tokio::select! {
                () = wire.gone() => false,
                () = gate.passed() => true,
            },
        };
        if !on {
            return false;
        }
    }
    true
}
