package simnode

import (
	"context"
	"reflect"

	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// admit asks a handler of the kubelet about a new pod. The attributes name the operation from Kubernetes 1.36 on, and the
// handler takes a context from 1.37 on.
func admit(handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	if operation := reflect.ValueOf(attributes).Elem().FieldByName("Operation"); operation.IsValid() {
		operation.SetString("add") // lifecycle.AddOperation
	}
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
