//! That there is a binary and that it starts. Its being here also makes cargo build the binary before any test of the
//! workspace runs; what the binary does is tested in the package `rethread-tests`.

use std::process::Command;

#[test]
fn the_binary_says_its_version() {
    let said = Command::new(env!("CARGO_BIN_EXE_rethread")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("rethread {}\n", env!("CARGO_PKG_VERSION")));
    assert!(said.status.success());
}
