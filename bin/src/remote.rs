//! A log that a server holds, for the commands that look at it and tell its threads things.

mod client;
mod find;
mod offer;
mod socket;
mod store;
mod tell;
pub(crate) mod wire;

#[cfg(feature = "server")]
pub(crate) use self::client::TOKEN;
pub(crate) use self::client::{Client, RemoteError, without_user};
pub(crate) use self::find::{find, find_command, holder_of};
#[cfg(feature = "server")]
pub(crate) use self::socket::Socket;
pub(crate) use self::store::RemoteStore;
