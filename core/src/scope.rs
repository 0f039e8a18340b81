//! Whose command, and which: the scope in which a key is unique.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

/// The authenticated subject of a request, or nobody on purpose. Part of the scope, never of the fingerprint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(String);

/// What the store holds for [`Actor::anonymous`]; an id that begins with `*` is stored with a second one.
const ANONYMOUS: &str = "*anonymous";

impl Actor {
    /// The actor with this id, for instance the user's id from the session.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        if id.starts_with('*') { Self(alloc::format!("*{id}")) } else { Self(id) }
    }

    /// Nobody, on purpose. Never equal to an actor with an id, whatever the id.
    pub fn anonymous() -> Self {
        Self(ANONYMOUS.into())
    }

    /// The id as it was given; empty for [`Actor::anonymous`].
    pub fn as_str(&self) -> &str {
        if self.0 == ANONYMOUS { "" } else { self.0.strip_prefix('*').unwrap_or(&self.0) }
    }

    /// The actor whom the store's column `actor_id` names.
    pub fn from_stored(stored: impl Into<String>) -> Self {
        Self(stored.into())
    }

    /// The form that the store's column `actor_id` holds.
    pub fn stored(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Actor {
    // An actor may be an e-mail address or the hash of a credential: logs get a keyed hash instead.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Actor(…)")
    }
}

/// (actor, operation): the same key string in two scopes is two keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Who asks.
    pub actor: Actor,
    /// The stable name of the command, `orders.create`; the automatic name is `POST /orders`.
    pub operation: Cow<'static, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_not_merged_with_an_odd_id() {
        for odd in ["", "*", "*anonymous", "**anonymous"] {
            let actor = Actor::new(odd);
            assert_ne!(actor, Actor::anonymous());
            assert_eq!(actor.as_str(), odd);
            assert_eq!(Actor::from_stored(actor.stored()), actor);
        }
        assert_eq!(Actor::anonymous().as_str(), "");
        assert_ne!(Actor::new("*a"), Actor::new("**a"));
    }
}
