package simnode

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// refusals is the record of pods that kubelets refused: a file, one line each, tab-separated: time, node,
// namespace/name, uid, reason, message. It is there, and empty, from the start, so that its absence is no zero.
type refusals struct {
	mu   sync.Mutex
	file *os.File
}

func openRefusals(path string) (*refusals, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &refusals{file: file}, nil
}

func (r *refusals) add(pod *v1.Pod, reason, message string) error {
	line := fmt.Sprintf("%s\t%s\t%s/%s\t%s\t%s\t%s\n", time.Now().UTC().Format(time.RFC3339Nano), pod.Spec.NodeName,
		pod.Namespace, pod.Name, pod.UID, reason, strings.ReplaceAll(message, "\n", " "))
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.WriteString(line); err != nil {
		return fmt.Errorf("recording a refusal: %w", err)
	}
	return nil
}

// writeRefusalEvent writes the Event that the kubelet writes. It is not tried again: the pod's
// status says the same.
func writeRefusalEvent(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, reason, message string) error {
	now := metav1.Now()
	event := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      fmt.Sprintf("%s.%x", pod.Name, now.UnixNano()),
		},
		InvolvedObject: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: v1.EventTypeWarning, Reason: reason, Message: message,
		Source:         v1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	_, err := client.CoreV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
	return err
}
