package simnode

import (
	"context"

	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// admit asks a handler of the kubelet, which takes a context from Kubernetes 1.37 on.
func admit(handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	switch handler := any(handler).(type) {
	case interface {
		Admit(context.Context, *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult
	}:
		return handler.Admit(context.Background(), attributes)
	case interface {
		Admit(*lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult
	}:
		return handler.Admit(attributes)
	default:
		panic("this kubelet admits pods in a way that is not known here")
	}
}
