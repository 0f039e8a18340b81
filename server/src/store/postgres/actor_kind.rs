//! What kind of actor the records belong to. Another kind gives every caller another id, so that no retry would
//! find its record: a change is refused while records are remembered, unless the operator accepts it.

use std::time::Duration;

use super::pool::Speak;
use super::{Postgres, sql};
use crate::store::StoreError;

impl Postgres {
    /// Once, at the start.
    pub(in crate::store) async fn keep_actor_kind(
        &self,
        kind: String,
        remember: Duration,
        accept_change: bool,
    ) -> Result<Option<String>, StoreError> {
        self.db.look_at_clock().await?;
        let (forgotten, kind) = ((self.now() - remember).as_millis(), &kind);
        self.db
            .read(|link| async move {
                link.batch_execute("BEGIN").await?;
                // Servers that start together with two kinds: one of them hears of the other.
                link.execute("SELECT pg_advisory_xact_lock($1)", &[&sql::ACTOR_KIND_LOCK]).await?;
                let kept = link.query_opt("SELECT value FROM samekey_meta WHERE name = 'actor_kind'", &[]).await?;
                let kept: Option<String> = kept.map(|row| row.try_get(0)).transpose()?;
                let in_the_way = match kept {
                    Some(kept) if kept == *kind => None,
                    Some(kept) if !accept_change => {
                        let live =
                            "SELECT 1 FROM idempotency_keys WHERE finished_at IS NULL OR finished_at > $1 LIMIT 1";
                        link.query_opt(live, &[&forgotten]).await?.map(|_| kept)
                    }
                    _ => None,
                };
                if in_the_way.is_none() {
                    link.execute(
                        "INSERT INTO samekey_meta VALUES ('actor_kind', $1) \
                         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                        &[kind],
                    )
                    .await?;
                }
                link.batch_execute("COMMIT").await?;
                Ok(in_the_way)
            })
            .await
    }
}
