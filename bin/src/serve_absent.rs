//! Replaces the server in a program without the feature `server`.

use std::process::ExitCode;

use clap::Args;

use crate::exit::Failure;
use crate::open::OpenArgs;

pub(crate) const WHY: &str = "the server is not compiled in: build with the feature `server`";

/// The arguments for the server.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _words: Vec<String>,
}

pub(crate) async fn serve(_: &OpenArgs, _: ServeArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, WHY))
}

/// The tokens of the server.
pub(crate) type TokenArgs = ServeArgs;

pub(crate) mod mcp {
    use super::{ExitCode, Failure, OpenArgs, ServeArgs, WHY};

    /// The MCP server over stdin and stdout.
    pub(crate) type McpArgs = ServeArgs;

    pub(crate) async fn mcp(_: &OpenArgs, _: McpArgs) -> Result<ExitCode, Failure> {
        Err(Failure::new(2, WHY))
    }
}

pub(crate) fn run(_: &OpenArgs, _: TokenArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, WHY))
}

pub(crate) mod local {
    use std::convert::Infallible;
    use std::io;
    use std::path::Path;

    use rethread::{Runtime, ThreadId};

    use crate::toolset::Programs;

    #[derive(Debug, Clone, Default)]
    pub(crate) struct Driven;

    impl Driven {
        pub(crate) fn add(&self, _: ThreadId) {}
    }

    #[derive(Debug)]
    pub(crate) struct Local(Infallible);

    impl Local {
        pub(crate) fn start(_: &Runtime, _: &Path, _: Driven, _: Programs) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, super::WHY))
        }

        pub(crate) async fn stop(self) {
            match self.0 {}
        }
    }
}

pub(crate) mod incoming {
    /// `[incoming.NAME]`, which is an error.
    pub(crate) type Entry = ();
}

pub(crate) mod webhook {
    use super::Failure;
    use crate::config::Config;

    /// `[webhooks.NAME]`, which is an error.
    pub(crate) type Entry = ();

    /// There are none: [`Config`] refuses them.
    pub(crate) fn check_secrets(_: &Config) -> Result<usize, Failure> {
        Ok(0)
    }
}
