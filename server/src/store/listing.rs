//! Looking for records: by what a person reads out, in pieces that keep no read open for long.

use samekey_core::claim::State;
use samekey_core::{Actor, Key, Timestamp};

use super::backend::on;
use super::{Case, RecordId, Store, StoreError};

/// So many records are read under one snapshot: a few milliseconds, so that no read keeps the WAL from being moved.
pub(super) const CHUNK: usize = 2_000;
/// So many chunks in one call; whoever wants more goes on where it ended.
const MOST_CHUNKS: usize = 25;

/// Which records; what is not said does not matter.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Search {
    /// In this state.
    pub state: Option<State>,
    /// Made under this name.
    pub operation: Option<String>,
    /// Of this actor.
    pub actor: Option<Actor>,
    /// Of this key.
    pub key: Option<Key>,
    /// Of a key of which logs say this, or a part of which it is the beginning.
    pub key_hash: Option<String>,
    /// The same, of the actor.
    pub actor_hash: Option<String>,
    /// Made, or made again, by this request.
    pub request_id: Option<String>,
    /// That made this.
    pub result_id: Option<String>,
    /// Made at this moment or before.
    pub until: Option<Timestamp>,
    /// Made at this moment or after.
    pub since: Option<Timestamp>,
}

/// A record, as a list shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The record.
    pub case: Case,
    /// The request that made its last attempt.
    pub request_id: Option<String>,
}

/// A part of a list, the newest record first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Page {
    /// The records.
    pub list: Vec<Listed>,
    /// Where the list goes on: all that is left to be looked at comes before this record.
    pub more: Option<RecordId>,
}

impl Store {
    /// Records that fit, at most `limit`, from before the one that is named. A page may be short, or empty, and the list
    /// still go on: what was looked at for it is bounded.
    pub async fn records(
        &self,
        search: &Search,
        mut before: Option<RecordId>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let limit = limit.max(1);
        let mut list = Vec::new();
        for _ in 0..MOST_CHUNKS {
            let chunk = on!(self, backend => backend.records(search.clone(), before).await)?;
            let mut chunk_list = chunk.list.into_iter().filter(|listed| self.fits(listed, search));
            for listed in chunk_list.by_ref() {
                let id = listed.case.found.id;
                list.push(listed);
                if list.len() == limit {
                    let more = chunk_list.next().map(|_| id).or(chunk.more);
                    return Ok(Page { list, more });
                }
            }
            if chunk.more.is_none() {
                return Ok(Page { list, more: None });
            }
            before = chunk.more;
        }
        Ok(Page { list, more: before })
    }

    /// A record, as a list shows it.
    pub async fn listed(&self, id: RecordId) -> Result<Option<Listed>, StoreError> {
        on!(self, backend => backend.listed(id).await)
    }

    /// Hashes are of this store's secret, so no index has them.
    fn fits(&self, listed: &Listed, search: &Search) -> bool {
        let begins = |hash: &Option<String>, purpose: &str, text: &str| {
            hash.as_ref().is_none_or(|hash| self.log_hash(purpose, text).starts_with(hash.as_str()))
        };
        begins(&search.key_hash, "key", listed.case.key.expose())
            && begins(&search.actor_hash, "actor", listed.case.actor.stored())
    }
}
