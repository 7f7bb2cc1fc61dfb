//! Any interleaving.
