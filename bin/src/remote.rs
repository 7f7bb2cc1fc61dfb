//! Access to a log that a server has open, for commands that read it and control its threads.

mod client;
mod commands;
mod find;
mod offer;
mod socket;
mod store;
pub(crate) mod wire;

#[cfg(feature = "server")]
pub(crate) use self::client::TOKEN;
pub(crate) use self::client::{Client, RemoteError, without_user};
pub(crate) use self::find::{find, find_command, holder_of};
#[cfg(feature = "server")]
pub(crate) use self::socket::Socket;
pub(crate) use self::store::RemoteStore;
