//! Memory stays bounded by configuration.
