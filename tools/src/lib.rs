//! What an agent can do: the tools of rethread.
