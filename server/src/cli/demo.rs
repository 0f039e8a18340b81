//! `samekey demo`: the proxy in front of a shop that comes with it.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::net::TcpListener;

use crate::demo::{Addresses, shop, walkthrough};

/// Start samekey in front of a small shop, and print `curl` lines to try.
///
/// Everything is kept in a temporary folder and removed at the end.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Where clients call.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    pub(crate) listen: SocketAddr,

    /// Where `/healthz` and `/readyz` are.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8788")]
    pub(crate) admin: SocketAddr,

    /// Where the shop itself listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8789")]
    pub(crate) shop: SocketAddr,
}

/// What `serve` is to be started with.
#[derive(Clone, Debug)]
pub(crate) struct DemoServe {
    listen: SocketAddr,
    admin: SocketAddr,
    shop: SocketAddr,
    store: PathBuf,
}

impl DemoServe {
    /// The command line of `samekey serve`.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let mut store = OsString::from("sqlite:");
        store.push(&self.store);
        let mut words: Vec<OsString> = ["samekey", "serve", "--upstream"].map(OsString::from).to_vec();
        words.push(format!("http://{}", self.shop).into());
        words.extend(["--listen".into(), self.listen.to_string().into()]);
        words.extend(["--admin".into(), self.admin.to_string().into()]);
        words.extend(["--store".into(), store]);
        words
    }

    /// What to print once the proxy listens, for the addresses it got: port 0 is any free one.
    pub(crate) fn welcome(&self, samekey: SocketAddr, admin: SocketAddr) -> String {
        walkthrough(Addresses { samekey, admin, shop: self.shop })
    }
}

/// Opens the shop and runs `serve` in front of it; when that ends, the shop closes and the
/// temporary folder goes.
///
/// # Errors
/// If an address is taken, the folder cannot be made, or `serve` fails.
pub(crate) async fn run<T, F>(args: DemoArgs, serve: impl FnOnce(DemoServe) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let listener = TcpListener::bind(args.shop)
        .await
        .with_context(|| format!("the shop cannot listen on {}; try --shop 127.0.0.1:0", args.shop))?;
    let shop_address = listener.local_addr()?;
    let folder = Folder::new()?;

    let (close, closed) = tokio::sync::oneshot::channel::<()>();
    let open = tokio::spawn(shop(listener, async { drop(closed.await) }));
    let served = serve(DemoServe {
        listen: args.listen,
        admin: args.admin,
        shop: shop_address,
        store: folder.0.join("samekey.db"),
    })
    .await;
    drop(close);
    let _ = open.await;
    served
}

/// A folder of this run's own, readable by nobody else.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("samekey-demo-{}", std::process::id()));
        // Left over from a run with the same number that was killed.
        remove(&path);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    // What cannot be removed is small and lies where such things lie.
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_shop_is_open_while_serve_runs_and_nothing_stays_behind() {
        let any = "127.0.0.1:0".parse().unwrap();
        let args = DemoArgs { listen: any, admin: any, shop: any };
        let store = run(args, async |serve: DemoServe| {
            tokio::net::TcpStream::connect(serve.shop).await.unwrap();
            assert!(serve.store.parent().unwrap().is_dir());
            let command = serve.command().join(" ".as_ref()).into_string().unwrap();
            assert!(command.contains(&format!("--upstream http://{} --listen", serve.shop)), "{command}");
            assert!(serve.welcome(any, any).contains(&serve.shop.to_string()));
            Ok(serve.store)
        })
        .await
        .unwrap();
        assert!(!store.parent().unwrap().exists());
    }
}
