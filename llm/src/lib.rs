//! One request in, one reply or stream out: the language models of rethread.
