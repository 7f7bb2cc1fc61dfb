//! What a command that runs a thread needs, and what the server that will run it offers.

use super::client::Client;
use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::output;
use crate::toolset::ToolArgs;

impl Client {
    /// Checks that a thread can run at the server as the options of the command say.
    ///
    /// # Errors
    /// When the server only shows, or an option is about tools of this program that the server does not have
    /// (exit code 2): a thread that ran without what it was to have, or without what was to hold it in, would be another.
    pub(crate) async fn can_run(&self, open: &OpenArgs, args: &ToolArgs) -> Result<(), Failure> {
        let at = self.address();
        if self.get("/v1/info").await?["read_only"] == true {
            return Err(Failure::other(format!(
                "the server at {at} is read-only (--read-only) and runs no threads: use one that was started without it"
            )));
        }
        let refused =
            |option: &str, why: &str| Err(Failure::new(2, format!("{option}: the thread runs at {at}, {why}")));
        if let Some(option) = args.more.first() {
            return refused(option, "with the tools of that server: give the option to `rethread serve` there");
        }
        let wanted = [("--allow-write", args.allow_write), ("--allow-commands", args.allow_commands)];
        if wanted.iter().any(|(_, is_wanted)| *is_wanted) {
            let tools = self.get("/v1/tools").await?;
            let offered =
                |option: &str| tools["tools"].as_array().into_iter().flatten().any(|tool| tool["allowed_by"] == option);
            if let Some((option, _)) = wanted.iter().find(|(option, is_wanted)| *is_wanted && !offered(option)) {
                return refused(option, "which was started without it: start it with the option, or leave it out here");
            }
        }
        if open.config.is_some() && open.prints_messages() {
            output::print_message(&format!("--config is not used: profiles are those of the server at {at}"));
        }
        Ok(())
    }

    /// As above, for a thread that has begun, which has its folder already.
    pub(crate) fn can_continue(&self, args: &ToolArgs) -> Result<(), Failure> {
        if args.workspace.is_some() {
            let at = self.address();
            let message =
                format!("--workspace: the thread continues at {at}, in the folder that it has there: leave it out");
            return Err(Failure::new(2, message));
        }
        Ok(())
    }

    /// Returns the folder of a new thread; `None` for the server's own.
    ///
    /// # Errors
    /// When a folder was named and the server is on another machine (exit code 2).
    pub(crate) fn folder(&self, args: &ToolArgs) -> Result<Option<String>, Failure> {
        match (&args.workspace, self.is_here()) {
            (Some(_), false) => {
                let at = self.address();
                let message =
                    format!("--workspace names a folder of this machine, and the thread runs at {at}: leave it out");
                Err(Failure::new(2, message))
            }
            // A token may not allow the choice, so it is left to the server if none was chosen.
            (None, true) if self.has_token() => Ok(None),
            (_, true) => Ok(args.folder()),
            (None, false) => Ok(None),
        }
    }
}
