use super::*;

async fn read(bytes: &[u8]) -> Vec<Result<String, i32>> {
    let mut lines = Lines::of(BufReader::with_capacity(7, bytes));
    let mut found = Vec::new();
    while let Some(frame) = lines.next().await.unwrap() {
        found.push(match frame {
            TransportFrame::Malformed { error, .. } => Err(i32::from(error.code)),
            frame => Ok(frame.to_json().unwrap()),
        });
    }
    found
}

#[tokio::test]
async fn line_that_is_too_long_ends_nothing() {
    let message = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}"#;
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    let text = format!("{message}\n\n{long}\n{message}\ncut off");
    let found = read(text.as_bytes()).await;
    assert_eq!(found, [Ok(message.to_owned()), Err(-32_600), Ok(message.to_owned())]);
}

#[tokio::test]
async fn line_that_is_not_utf_8_is_an_error_of_its_own() {
    assert_eq!(read(b"\xff\xfe\n[1]\n{\n").await, [Err(-32_700), Err(-32_600), Err(-32_700)]);
}
