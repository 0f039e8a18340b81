//! One intent, same key, one effect.
