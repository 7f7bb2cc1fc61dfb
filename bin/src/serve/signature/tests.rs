use super::*;

/// The example of the specification, https://github.com/standard-webhooks/standard-webhooks.
#[test]
fn signature_matches_the_specification() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn invalid_secret_is_reported_without_printing_it() {
    for text in ["", "whsec_", "whsec_!!", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        let error = Secret::parse(text).unwrap_err();
        assert!(error.contains("/dev/urandom"), "{error}");
    }
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    assert_eq!(format!("{secret:?}"), "Secret(…)");
}
