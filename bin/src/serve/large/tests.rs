use actix_web::body::{BodySize, MessageBody as _, to_bytes};

use super::*;

async fn answer(n: usize) -> HttpResponse {
    json(vec!["word \""; n], |words, to| Ok(serde_json::to_writer(to, words)?)).await
}

#[actix_web::test]
async fn small_response_has_a_content_length() {
    let answer = answer(2).await;
    assert_eq!(answer.headers().get("content-type").unwrap(), "application/json");
    assert_eq!(answer.body().size(), BodySize::Sized(21));
    assert_eq!(to_bytes(answer.into_body()).await.unwrap(), r#"["word \"","word \""]"#);
}

#[actix_web::test]
async fn large_response_is_sent_in_chunks_and_complete() {
    let n = PIECE_BYTES;
    let answer = answer(n).await;
    assert_eq!(answer.body().size(), BodySize::Stream);
    let body = to_bytes(answer.into_body()).await.unwrap();
    assert!(serde_json::from_slice::<Vec<String>>(&body).unwrap() == vec!["word \""; n]);
}

#[actix_web::test]
async fn response_that_cannot_be_written_is_aborted() {
    let broken = json((), |(), to| {
        to.write_all(b"[")?;
        Err(io::Error::other("no more"))
    });
    let answer = broken.await;
    assert!(to_bytes(answer.into_body()).await.is_err());
}

#[actix_web::test]
async fn response_whose_writer_panics_is_aborted() {
    for n_bytes in [1, 3 * PIECE_BYTES] {
        let broken = json((), move |(), to| {
            to.write_all(&vec![b'['; n_bytes])?;
            panic!("the writer fails");
        });
        assert!(to_bytes(broken.await.into_body()).await.is_err(), "after {n_bytes} bytes");
    }
}

#[actix_web::test]
async fn closed_stdout_stops_writing() {
    let (told, stopped) = tokio::sync::oneshot::channel();
    let endless = json((), move |(), to| {
        let error = loop {
            if let Err(error) = to.write_all(&[b' '; 1024]) {
                break error;
            }
        };
        let _ = told.send(error.kind());
        Err(error)
    });
    drop(endless.await);
    assert_eq!(stopped.await.unwrap(), io::ErrorKind::BrokenPipe);
}
