//! The documented catalogue is the code.
