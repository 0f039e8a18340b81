//! Records under names that the configuration does not know.

use std::collections::BTreeSet;

use samekey_core::Timestamp;

use super::error::Trouble;
use super::pool::{Link, Speak};
use crate::store::sqlite::named::is_automatic;
use crate::store::{Ask, Found, StoreError};

/// Names outside of `known` with live records, and how many. One step of the index per name, and a look at each
/// record of an unknown one only.
pub(super) async fn in_use(
    link: &Link,
    known: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Vec<(String, u64)>, Trouble> {
    let next = "SELECT operation FROM idempotency_keys WHERE configured AND state <> 'expired' AND operation > $1 \
                ORDER BY operation LIMIT 1";
    let count = "SELECT count(*) FROM idempotency_keys WHERE configured AND state <> 'expired' AND operation = $1 \
                 AND NOT (state IN ('completed', 'failed') AND expires_at <= $2)";
    let mut unknown = Vec::new();
    let mut last = String::new();
    while let Some(row) = link.query_opt(next, &[&last]).await? {
        let name: String = row.try_get(0)?;
        if !is_automatic(&name) && !known.contains(&name) {
            let live: i64 = link.query_one(count, &[&name, &now.as_millis()]).await?.try_get(0)?;
            if live > 0 {
                unknown.push((name.clone(), live.unsigned_abs()));
            }
        }
        last = name;
    }
    Ok(unknown)
}

/// A key that has no record here but one under a name that is not written down here: another configuration made
/// it, perhaps in a server that runs beside this one. Whether it is this command, only that one knows.
pub(super) fn refuse_foreign(ask: &Ask, records: &[Found]) -> Result<(), StoreError> {
    let Some(known) = &ask.named else { return Ok(()) };
    match records.iter().find(|found| !is_automatic(&found.operation) && !known.contains(&found.operation)) {
        Some(foreign) => Err(StoreError::UnnamedOperation { operation: foreign.operation.as_str().into() }),
        None => Ok(()),
    }
}
