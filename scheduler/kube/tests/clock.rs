use super::server::Server;
use crate::kube::clock::{Clock, ServerClock};
use fluxqueue_core::Event;

async fn told(clock: &mut ServerClock) -> Option<i64> {
    clock.compare().await.map(|event| match event {
        Event::ClockOffset(micros) => micros,
        other => panic!("{other:?}"),
    })
}

#[tokio::test]
async fn the_api_servers_clock_is_read_from_its_answers() {
    let server = Server::start().await;
    let mut clock = ServerClock::new(server.clients.write.clone(), Clock::start());
    server.set_clock(3600);
    let first = told(&mut clock).await.expect("the first difference is reported");
    assert!(first.abs_diff(3_600_000_000) < 1_000_000, "{first}");
    assert_eq!(told(&mut clock).await, None, "nothing has moved");
    server.set_clock(-3600);
    let second = told(&mut clock).await.expect("it has jumped");
    assert!(second.abs_diff(-3_600_000_000) < 1_000_000, "{second}");
}
