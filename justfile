# The same steps as .ci/run, one at a time.

# Everything that CI checks.
ci:
    .ci/run

# Formats the code.
fmt:
    cargo fmt --all

# Warnings are errors.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# All tests, doctests included.
test:
    cargo test --workspace --all-features

# Each feature of the library alone compiles, and so does none.
features:
    cargo test -p rethread --test minimal --target-dir target/features
    for feature in "" anthropic gemini openai toml tokens files commands sandbox mcp schedules partial-values jetstream workers; do cargo check -p rethread --features "$feature" --target-dir target/features || exit 1; done
    for feature in "" inspector otlp jetstream; do cargo check -p rethread-cli --no-default-features --features "$feature" --target-dir target/features || exit 1; done

# The documentation, warnings are errors.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

# Accepts what the tests print now as what they should print; read the diff afterwards.
bless:
    UPDATE_EXPECT=1 cargo test --workspace --all-features

# Licences, bans and sources of the dependencies; needs cargo-deny.
deny:
    cargo deny check bans licenses sources

# Mutated input for everything that reads bytes from outside: each target for so many seconds, an hour unless given.
fuzz seconds="3600":
    RETHREAD_FUZZ_SECONDS={{seconds}} RETHREAD_FUZZ_SEED=$(date +%s%N) cargo test --workspace --all-features mutated -- --test-threads 2

# Steady load on a server for an hour, unless other minutes are given: memory, files and disk have to stay flat.
soak minutes="60":
    cargo build --release -p rethread-cli --features full
    python3 tests/soak.py target/release/rethread --minutes {{minutes}}

# The figures in docs/PERFORMANCE.md.
bench:
    cargo bench --workspace --all-features
