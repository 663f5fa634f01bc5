package simnode

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// requestTimeout bounds each request: an API server that was killed may leave a connection that never answers.
const requestTimeout = 10 * time.Second

// sync does the work that is due for one pod now, and queues the pod again for the next.
func (k *kubelets) sync(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	k.mu.Lock()
	p := k.pods[uid]
	if p == nil {
		k.mu.Unlock()
		return nil
	}
	node := k.nodes[p.pod.Spec.NodeName]
	if node == nil || node.stopped() {
		k.mu.Unlock()
		return nil
	}
	now := time.Now()
	switch {
	case !p.stopAt.IsZero():
		if wait := p.stopAt.Sub(now); wait > 0 {
			k.mu.Unlock()
			k.queue.AddAfter(uid, wait)
			return nil
		}
		// From here on the pod holds nothing on its node: the next bound pod may count on that.
		delete(node.active, uid)
		k.mu.Unlock()
		return k.finish(ctx, p)
	case p.refused != nil:
		k.mu.Unlock()
		return k.refuse(ctx, p, now)
	case p.ended:
		k.mu.Unlock()
		return nil
	}
	elapsed := now.Sub(p.start)
	wanted, next := p.life.at(elapsed)
	if wanted.phase == v1.PodSucceeded || wanted.phase == v1.PodFailed {
		delete(node.active, uid)
	}
	unchanged := wanted == p.written
	w := p.writer()
	k.mu.Unlock()
	if !unchanged {
		status := w.status(wanted)
		if err := k.write(ctx, w.pod, &status); err != nil {
			return err
		}
		k.mu.Lock()
		p.written = wanted
		k.mu.Unlock()
	}
	if next != forever {
		k.queue.AddAfter(uid, time.Until(p.start.Add(next)))
	}
	return nil
}

// writer must be called with the kubelets' mu held.
func (p *simPod) writer() writer {
	return writer{pod: p.pod, start: p.start, podIP: p.podIP, host: p.host, life: &p.life}
}

// write patches a pod's status. A pod that is gone is no error: its deletion is on the way to us.
func (k *kubelets) write(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error {
	patch, err := statusPatch(pod.UID, status)
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if apierrors.IsInvalid(err) {
		// It would not become valid by being sent again.
		klog.ErrorS(err, "status is refused by the API server", "pod", klog.KObj(pod), "phase", status.Phase)
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing status %s of pod %s/%s: %w", status.Phase, pod.Namespace, pod.Name, err)
	}
	return nil
}

// refuse writes the status that a kubelet writes for a pod that it does not admit, and records it.
func (k *kubelets) refuse(ctx context.Context, p *simPod, now time.Time) error {
	k.mu.Lock()
	pod, reason, message, told := p.pod, p.refused.Reason, p.refused.Message, p.told
	p.told = true
	k.mu.Unlock()
	if !told {
		klog.InfoS("pod refused", "pod", klog.KObj(pod), "node", pod.Spec.NodeName, "reason", reason, "message", message)
		if err := k.refusals.add(pod, reason, message); err != nil {
			return err
		}
		if err := writeRefusalEvent(ctx, k.client, pod, reason, message); err != nil {
			klog.ErrorS(err, "event of a refused pod is not written", "pod", klog.KObj(pod))
		}
	}
	status := refusedStatus(pod, reason, message, now)
	return k.write(ctx, pod, &status)
}

// finish ends a deleted pod: its containers have stopped, so it gets a final phase, and then it goes.
func (k *kubelets) finish(ctx context.Context, p *simPod) error {
	k.mu.Lock()
	pod, ended := p.pod, p.ended
	w := p.writer()
	k.mu.Unlock()
	if !ended && !w.start.IsZero() {
		status := w.status(stage{phase: v1.PodFailed, reason: "", since: time.Since(w.start)})
		for i := range status.ContainerStatuses {
			c := &status.ContainerStatuses[i]
			c.State.Terminated = w.ended(c, terminatedBySignal, time.Since(w.start))
		}
		if err := k.write(ctx, pod, &status); err != nil {
			return err
		}
		k.mu.Lock()
		p.ended = true
		k.mu.Unlock()
	}
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
