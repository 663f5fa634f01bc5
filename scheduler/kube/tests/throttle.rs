use std::time::{Duration, Instant};

use crate::kube::binder::BindRequest;
use crate::kube::throttle::{TRICKLE_EVERY, wait_for_turn};
use crate::kube::work_queue::WorkQueue;
use fluxqueue_workload::{ObjectKey, ObjectRef};

const SOON: Duration = Duration::from_millis(50);

fn binding() -> BindRequest {
    let pod = ObjectRef { key: ObjectKey::new("ns", "p"), uid: "u1".into() };
    BindRequest { id: 1, pod, node: "n1".into(), queue: "default".into(), decided: Instant::now() }
}

#[tokio::test]
async fn records_trickle_while_bindings_are_under_way_and_flow_afterwards() {
    let (queue, bindings) = (WorkQueue::new(8), WorkQueue::new(8));
    queue.push("record").unwrap();
    bindings.push(binding()).unwrap();
    let asked = Instant::now();
    wait_for_turn(0, &queue, &bindings).await;
    assert!(
        asked.elapsed() >= TRICKLE_EVERY,
        "the first worker goes on, slowly, while Bindings are under way"
    );
    assert!(tokio::time::timeout(SOON, wait_for_turn(1, &queue, &bindings)).await.is_err());
    let taken = bindings.pop().await.unwrap();
    assert!(
        tokio::time::timeout(SOON, wait_for_turn(1, &queue, &bindings)).await.is_err(),
        "one is still in flight"
    );
    let waiting = wait_for_turn(1, &queue, &bindings);
    let ends = async {
        tokio::time::sleep(SOON).await;
        drop(taken);
    };
    let (waited, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(1), waiting), ends);
    waited.expect("all workers go on once the last Binding is done");
}
