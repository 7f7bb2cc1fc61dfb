use super::*;

const STRIPE_BODY: &[u8] = br#"{"id":"evt_1","type":"payment_intent.succeeded"}"#;
const STRIPE_CODE: &str = "db71b160123e356fc875247e6bc21688d196c76226c7cd70e52be8a09d469d38";
const TIME: u64 = 1_614_265_330;

/// A delivery with its secret.
struct Example {
    scheme: Scheme,
    /// Another secret, then the one that signed.
    secrets: [Secret; 2],
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Example {
    fn verify_at(&self, now_s: u64) -> Result<(), Refused> {
        let header = |name: &str| {
            self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
        };
        let delivery = Delivery { header: &header, body: &self.body, now_s };
        self.scheme.verify(&self.secrets[..1], &delivery).unwrap_err();
        self.scheme.verify(&self.secrets, &delivery)
    }

    fn verify(&self) -> Result<(), Refused> {
        self.verify_at(TIME)
    }
}

fn with_another(secret: Result<Secret, String>) -> [Secret; 2] {
    [Secret::of_text("another secret of this webhook").unwrap(), secret.unwrap()]
}

/// The example of GitHub's documentation, "Validating webhook deliveries".
fn github() -> Example {
    let code = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    Example {
        scheme: Scheme::GitHub,
        secrets: with_another(Secret::of_text("It's a Secret to Everybody")),
        headers: vec![("X-Hub-Signature-256", code.into())],
        body: b"Hello, World!".into(),
    }
}

/// The example of the specification, https://github.com/standard-webhooks/standard-webhooks.
fn standard() -> Example {
    Example {
        scheme: Scheme::Standard { tolerance_s: 300 },
        secrets: with_another(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
        headers: vec![
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".into()),
            ("webhook-timestamp", TIME.to_string()),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".into()),
        ],
        body: br#"{"test": 2432232314}"#.into(),
    }
}

/// Computed with the `hmac` module of Python, as Stripe's documentation says.
fn stripe() -> Example {
    Example {
        scheme: Scheme::Stripe { tolerance_s: 300 },
        secrets: with_another(Secret::of_text("whsec_test_0123456789abcdef")),
        headers: vec![("Stripe-Signature", format!("t={TIME},v1={STRIPE_CODE},v0=00"))],
        body: STRIPE_BODY.into(),
    }
}

/// The first test case of RFC 4231.
fn hmac(encoding: Encoding, prefix: &str, code: &str) -> Example {
    let (header, prefix) = ("X-Signature".to_owned(), prefix.to_owned());
    Example {
        secrets: with_another(Secret::of_text(&"\u{b}".repeat(20))),
        headers: vec![("x-signature", format!("{prefix}{code}"))],
        scheme: Scheme::Hmac { header, encoding, prefix, id_header: None },
        body: b"Hi There".into(),
    }
}

fn all() -> [Example; 5] {
    let hex = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    let base64 = "sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c=";
    [
        github(),
        standard(),
        stripe(),
        hmac(Encoding::Hex, "sha256=", &hex.to_uppercase()),
        hmac(Encoding::Base64, "", base64),
    ]
}

#[test]
fn signatures_of_published_examples_are_accepted() {
    for example in all() {
        assert_eq!(example.verify(), Ok(()), "{:?}", example.scheme);
    }
}

#[test]
fn changed_byte_of_body_or_headers_is_refused() {
    for mut example in all() {
        for i in 0..example.body.len() {
            for bit in 0..8 {
                example.body[i] ^= 1 << bit;
                assert_eq!(example.verify(), Err(Refused::WrongSignature), "{:?} {i}", example.scheme);
                example.body[i] ^= 1 << bit;
            }
        }
        let body = example.body.clone();
        for changed in [&body[1..], &[&body[..], b" "].concat(), b""] {
            example.body = changed.into();
            assert_eq!(example.verify(), Err(Refused::WrongSignature), "{:?}", example.scheme);
        }
        example.body = body;
        for header in 0..example.headers.len() {
            let value = example.headers[header].1.clone();
            // Signatures of other Stripe versions are ignored.
            let signed = value.split(",v0").next().unwrap();
            for (i, c) in signed.char_indices() {
                let other = if c == '1' { "2" } else { "1" };
                example.headers[header].1.replace_range(i..i + c.len_utf8(), other);
                assert!(example.verify().is_err(), "{:?} {}", example.scheme, example.headers[header].1);
                example.headers[header].1.clone_from(&value);
            }
            example.headers[header].1.clear();
            assert!(example.verify().is_err(), "{:?}", example.scheme);
            example.headers[header].1.clone_from(&value);
        }
        assert_eq!(example.verify(), Ok(()));
        example.headers.clear();
        assert_eq!(example.verify(), Err(Refused::NoSignature), "{:?}", example.scheme);
    }
}

#[test]
fn old_and_future_deliveries_are_refused() {
    for example in [standard(), stripe()] {
        for (now, expected) in [
            (TIME + 300, Ok(())),
            (TIME - 300, Ok(())),
            (TIME + 301, Err(Refused::WrongTime)),
            (TIME - 301, Err(Refused::WrongTime)),
            (u64::MAX, Err(Refused::WrongTime)),
        ] {
            assert_eq!(example.verify_at(now), expected, "{:?} {now}", example.scheme);
        }
    }
    assert_eq!(github().verify_at(u64::MAX), Ok(()), "GitHub signs no time");
}

#[test]
fn one_valid_signature_of_several_is_enough() {
    let wrong = "0".repeat(64);
    let mut example = stripe();
    example.headers[0].1 = format!("t={TIME},v1={wrong},v1=nonsense, v1={STRIPE_CODE}");
    assert_eq!(example.verify(), Ok(()));
    // A version that is not known counts as none.
    example.headers[0].1 = format!("t={TIME},v0={STRIPE_CODE}");
    assert_eq!(example.verify(), Err(Refused::WrongSignature));
    let mut example = standard();
    example.headers[2].1 = format!("v1a,AAAA v1,AAAA {}", example.headers[2].1);
    assert_eq!(example.verify(), Ok(()));
}

#[test]
fn id_and_event_are_read_for_each_service() {
    let payload = serde_json::json!({ "id": "evt_1", "type": "invoice.paid" });
    let header = |name: &str| match name {
        "x-github-delivery" => Some("72d3162e"),
        "x-github-event" => Some("push"),
        "webhook-id" => Some("msg_1"),
        "X-Id" => Some("7"),
        _ => None,
    };
    let delivery = Delivery { header: &header, body: b"", now_s: 0 };
    let hmac = |id_header: Option<&str>| Scheme::Hmac {
        header: "X-Signature".into(),
        encoding: Encoding::Hex,
        prefix: String::new(),
        id_header: id_header.map(str::to_owned),
    };
    for (scheme, id, event) in [
        (Scheme::GitHub, Some("72d3162e"), Some("push")),
        (Scheme::Stripe { tolerance_s: 1 }, Some("evt_1"), Some("invoice.paid")),
        (Scheme::Standard { tolerance_s: 1 }, Some("msg_1"), Some("invoice.paid")),
        (hmac(Some("X-Id")), Some("7"), None),
        (hmac(Some("X-Other")), None, None),
        (hmac(None), None, None),
    ] {
        assert_eq!((scheme.id(&delivery, &payload), scheme.event(&delivery, &payload)), (id, event), "{scheme:?}");
        assert!(!scheme.is_test(&delivery));
    }
}
