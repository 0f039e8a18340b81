//! A look at the whole store that costs the same however much it holds: what the indexes of few records say.
//!
//! How many have ended is not counted: a row that every transaction writes would make them wait for each other.

use samekey_core::Timestamp;
use samekey_core::claim::State;

use super::error::Trouble;
use super::pool::{Link, Speak};
use crate::store::Sample;

const COUNTS: &str = "SELECT CASE WHEN configured THEN operation ELSE '' END AS name, state, count(*), min(settle_after) \
     FROM idempotency_keys WHERE state = 'in_progress' GROUP BY 1, 2 UNION ALL \
     SELECT CASE WHEN configured THEN operation ELSE '' END AS name, state, count(*), min(settle_after) \
     FROM idempotency_keys WHERE state = 'uncertain' GROUP BY 1, 2";

pub(super) async fn take(link: &Link) -> Result<Sample, Trouble> {
    let mut sample = Sample::default();
    for row in link.query(COUNTS, &[]).await? {
        let Some(state) = State::from_name(row.try_get(1)?) else { continue };
        let name: String = row.try_get(0)?;
        if state == State::Uncertain
            && let Some(millis) = row.try_get::<_, Option<i64>>(3)?
        {
            sample.uncertain.push((name.clone(), Timestamp::from_millis(millis)));
        }
        sample.records.push((name, state, row.try_get::<_, i64>(2)?.unsigned_abs()));
    }
    let size = "SELECT coalesce(sum(pg_total_relation_size(to_regclass(t))), 0)::bigint \
                FROM unnest(ARRAY['idempotency_keys', 'idempotency_effects', 'idempotency_trail']) AS t";
    sample.size_bytes = link.query_one(size, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs();
    Ok(sample)
}
