//! How to open a PostgreSQL store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};

use super::tls;
use crate::clock::Clock;
use crate::store::{Policies, StoreError};

/// How to open a PostgreSQL store.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// Host, database and user; TLS stands beside it.
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: tokio_postgres_rustls::MakeRustlsConnect,
    /// The clock of this host. Only how long something took is read from it; records are dated by the database.
    pub clock: Clock,
    /// The most writes that wait. New claims are refused when half are waiting, so that completions always fit.
    pub queue_capacity: usize,
    /// The most connections, but for the one that listens.
    pub connections: usize,
    /// The most transactions that write at the same time: each takes what is queued, so that few commit much.
    pub writers: usize,
    /// How long making a connection, or waiting for a free one, may take.
    pub connect_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// How long another transaction may hold a record.
    pub lock_timeout: Duration,
    /// The contracts that are known before the store opens.
    pub(in crate::store) policies: Arc<Policies>,
    /// Whether this process looks after the records in the background.
    pub attended: bool,
    /// Stands in for the database's clock.
    #[cfg(test)]
    pub(super) test_clock: Option<&'static str>,
}

impl PostgresOptions {
    /// The defaults for a URL, `postgres://user:password@host/database?sslmode=verify-full`.
    ///
    /// # Errors
    /// If it is no such URL, or TLS cannot be set up as it asks. The error never holds the password.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let (mut config, tls) = tls::parse(url).map_err(StoreError::misuse)?;
        // A decision that is read from a replica would be made of the past.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("samekey");
        }
        config.keepalives_idle(Duration::from_secs(10));
        Ok(Self {
            config,
            tls,
            clock: Clock::system(),
            queue_capacity: 4096,
            connections: 8,
            writers: 2,
            // Under every client's patience.
            connect_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(2),
            policies: Arc::default(),
            attended: true,
            #[cfg(test)]
            test_clock: None,
        })
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the most writes that wait.
    #[must_use]
    pub fn queue_capacity(mut self, writes: usize) -> Self {
        self.queue_capacity = writes;
        self
    }

    /// Sets the most connections; one more listens.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the most transactions that write at the same time.
    #[must_use]
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers;
        self
    }

    /// Sets how long making a connection may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one statement may take.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Sets how long another transaction may hold a record.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// The contracts by which records are looked after, among them those that a failover made uncertain: they are
    /// marked when the store opens, before a layer made its own known.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Leaves looking after the records to others.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.attended = false;
        self
    }

    /// Dates records by this expression.
    #[cfg(test)]
    pub(in crate::store) fn test_clock(mut self, expression: &'static str) -> Self {
        self.test_clock = Some(expression);
        self
    }

    /// How often the database is asked for the time.
    pub(super) fn pulse(&self) -> Duration {
        // Where a test moves both clocks, nobody looks at them between.
        #[cfg(test)]
        if self.test_clock.is_some() {
            return Duration::from_secs(3600);
        }
        Duration::from_secs(1)
    }

    /// How messages name the database: without user and password.
    pub fn place(&self) -> Arc<str> {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(index, host)| {
                let ports = self.config.get_ports();
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    Host::Tcp(name) => format!("{name}:{port}"),
                    #[cfg(unix)]
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        let user = self.config.get_user().unwrap_or_default();
        format!("postgres://{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or(user)).into()
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds the password.
        f.debug_struct("PostgresOptions")
            .field("place", &self.place())
            .field("queue_capacity", &self.queue_capacity)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_neither_user_nor_password() {
        let options = PostgresOptions::new("postgres://ann:s3cret@db1:5433,db2/shop?sslmode=disable").unwrap();
        assert_eq!(&*options.place(), "postgres://db1:5433,db2:5432/shop");
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn wrong_urls_say_what_is_wrong_and_keep_the_password() {
        for (url, hint) in [
            ("postgres://ann:s3cret@db/shop?sslmode=sometimes", "sslmode"),
            ("postgres://ann:s3cret@db/shop?sslmode=verify-full&sslrootcert=/nowhere.pem", "/nowhere.pem"),
            ("postgres://ann:s3cret@db:port/shop", "postgres://"),
            ("postgres:///shop", "host"),
        ] {
            let error = PostgresOptions::new(url).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains("s3cret"), "{error}");
        }
    }
}
