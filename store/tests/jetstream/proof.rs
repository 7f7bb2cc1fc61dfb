//! Who the client is, who the server is, and which version it has: against real servers.

use std::path::PathBuf;

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use rethread_store::testing::nats::{Servers, program_of};
use rethread_store::testing::{append, put, thread};
use rethread_store::{Credentials, JetStreamOptions, JetStreamStore, LogReader, Store, StoreError};
use serde_json::{Value, json};

use super::{of, open, own};

fn refusal(options: &JetStreamOptions) -> StoreError {
    let dir = tempfile::tempdir().unwrap();
    JetStreamStore::open(dir.path(), options.clone()).unwrap_err()
}

/// Writes with these options, and reads what another process with the same ones wrote.
fn works(options: &JetStreamOptions) {
    for n in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), options);
        put(&store, append(thread(n + 1), 0, &["a"])).unwrap();
        assert_eq!(store.stream(thread(1)).unwrap().last_seq.0, 0);
        store.close().unwrap();
    }
}

fn with(servers: &Servers, credentials: Credentials) -> JetStreamOptions {
    let mut options = servers.options("agents");
    options.servers.credentials = credentials;
    options
}

#[test]
fn nkey_proves_who_the_client_is() {
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let config = format!("authorization {{ users: [{{ nkey: {} }}] }}", user.public_key());
    let Some(servers) = own(1, &config) else { return };
    works(&with(&servers, Credentials::Nkey(user.seed().unwrap())));
    for credentials in [Credentials::None, Credentials::Nkey(stranger.seed().unwrap())] {
        let error = refusal(&with(&servers, credentials));
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("authorization"), "{error}");
    }
    let error = refusal(&with(&servers, Credentials::Nkey("SUNOSEED".into())));
    assert!(!error.to_string().contains("SUNOSEED"), "{error}");
}

#[test]
fn token_proves_who_the_client_is() {
    let Some(servers) = own(1, "authorization { token: secret }") else { return };
    works(&with(&servers, Credentials::Token("secret".into())));
    let error = refusal(&with(&servers, Credentials::Token("wrong".into())));
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

/// A JWT of NATS: signed by an NKEY, with claims of this kind for a subject.
fn jwt(issuer: &KeyPair, subject: &str, kind: &str, nats: Value) -> String {
    let mut nats = nats;
    nats["type"] = kind.into();
    nats["version"] = 2.into();
    let claims =
        json!({ "jti": "x", "iat": 1, "iss": issuer.public_key(), "sub": subject, "name": kind, "nats": nats });
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(&claims));
    let signature = BASE64URL_NOPAD.encode(&issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

#[test]
fn jwt_proves_who_the_client_is() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let of_operator = jwt(&operator, &operator.public_key(), "operator", json!({}));
    let of_account = jwt(&operator, &account.public_key(), "account", json!({ "limits": limits }));
    let of_user = jwt(&account, &user.public_key(), "user", json!({ "subs": -1, "data": -1, "payload": -1 }));
    // JetStream does not start without one.
    let system = KeyPair::new_account();
    let of_system = jwt(&operator, &system.public_key(), "account", json!({}));
    let config = format!(
        "operator: {of_operator}\nresolver: MEMORY\nsystem_account: {system}\n\
         resolver_preload: {{ {}: {of_account}, {system}: {of_system} }}",
        account.public_key(),
        system = system.public_key(),
    );
    let Some(servers) = own(1, &config) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, jwt: &str, seed: &str| -> PathBuf {
        let path = dir.path().join(name);
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    works(&with(&servers, Credentials::File(file("user.creds", &of_user, &user.seed().unwrap()))));
    // Signed by somebody else, with another key, without any, and a file that is not there.
    let stranger = KeyPair::new_account();
    let forged = jwt(&stranger, &user.public_key(), "user", json!({}));
    let other = KeyPair::new_user();
    for credentials in [
        Credentials::File(file("forged.creds", &forged, &user.seed().unwrap())),
        Credentials::File(file("other.creds", &of_user, &other.seed().unwrap())),
        Credentials::None,
    ] {
        let error = refusal(&with(&servers, credentials));
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    }
    let error = refusal(&with(&servers, Credentials::File(dir.path().join("absent.creds"))));
    assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    assert!(error.to_string().contains("absent.creds"), "{error}");
}

/// A certificate authority, and certificates that it signed: files of a certificate and of its key.
struct Certificates {
    dir: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { dir, issuer: rcgen::Issuer::new(params, key) }
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        params.extended_key_usages =
            vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (to, of_key) = (self.dir.path().join(format!("{name}.pem")), self.dir.path().join(format!("{name}.key")));
        std::fs::write(&to, certificate.pem()).unwrap();
        std::fs::write(&of_key, key.serialize_pem()).unwrap();
        (to, of_key)
    }
}

#[test]
fn certificates_prove_who_server_and_client_are() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let (certificate, key) = ours.sign("server");
    let config = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        certificate.display(),
        key.display(),
        ours.ca().display()
    );
    let Some(servers) = own(1, &config) else { return };
    let options = |ca: &Certificates, client: Option<(PathBuf, PathBuf)>| {
        let mut options = servers.options("agents");
        options.servers.require_tls = true;
        options.servers.ca_file = Some(ca.ca());
        options.servers.client_certificate = client;
        options
    };
    works(&options(&ours, Some(ours.sign("client"))));
    // A server that another authority signed for, a client that it did, and one without a certificate.
    for refused in
        [options(&theirs, Some(ours.sign("again"))), options(&ours, Some(theirs.sign("foreign"))), options(&ours, None)]
    {
        let error = refusal(&refused);
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    }
}

#[test]
fn server_without_tls_is_refused_where_it_is_required() {
    let Some(servers) = own(1, "") else { return };
    let mut options = servers.options("agents");
    options.servers.require_tls = true;
    let error = refusal(&options);
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("the server may have no TLS"), "{error}");
}

#[test]
fn oldest_version_works_and_an_older_one_is_refused() {
    let program = |version| program_of(env!("CARGO_TARGET_TMPDIR"), version);
    let Some(servers) = of(program("2.12.0"), 1, "") else { return };
    works(&servers.options("agents"));
    let Some(servers) = of(program("2.11.11"), 1, "") else { return };
    let error = refusal(&servers.options("agents"));
    assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    assert!(error.to_string().contains("`2.11.11`, and 2.12 or later is needed"), "{error}");
}
