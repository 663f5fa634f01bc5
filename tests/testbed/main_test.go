package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fluxqueue/tests/testbed/controlplane"
)

// asProgram makes the test's binary the program itself: a testbed starts its parts from its own binary.
const asProgram = "TESTBED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startUp runs `up` as a child of the given program, or of this process, and returns when it is ready.
func startUp(t *testing.T, through []string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	words := append(through, os.Args[0], "up", "--dir", dir, "--nodes", "nodes/demo.yaml")
	cmd := exec.Command(words[0], append(words[1:], args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		t.Fatalf("up wrote %q: %v", line, err)
	}
	return cmd, dir
}

func testbed(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output))
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func makePod(t *testing.T, client kubernetes.Interface, name, scheduler, cpu string, command ...string) {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec = v1.PodSpec{
		SchedulerName: scheduler,
		RestartPolicy: v1.RestartPolicyNever,
		Containers:    []v1.Container{{Name: "main", Image: "none", Command: command}},
	}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func bind(t *testing.T, client kubernetes.Interface, pod, node string) {
	t.Helper()
	binding := &v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: node}}
	binding.Name = pod
	if err := client.CoreV1().Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitPhase(t *testing.T, client kubernetes.Interface, name string, phase v1.PodPhase) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	eventually(t, fmt.Sprintf("pod %s is %s", name, phase), func() bool {
		var err error
		// While the API server is away there is no answer, which is no failure here.
		pod, err = client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == phase
	})
	return pod
}

func TestAControlPlaneFromStartToRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	_, dir := startUp(t, nil, "--kube-scheduler")
	client, _, err := controlplane.Client(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("kube-scheduler places 100 pods and they end", func(t *testing.T) {
		for i := range 100 {
			makePod(t, client, fmt.Sprintf("many-%d", i), v1.DefaultSchedulerName, "300m", "sleep", "1")
		}
		for i := range 100 {
			awaitPhase(t, client, fmt.Sprintf("many-%d", i), v1.PodSucceeded)
		}
		if count := testbed(t, "refusals", "--dir", dir); count != "0" {
			t.Errorf("%s pods were refused", count)
		}
	})
	t.Run("the second of two that fill a node is refused", func(t *testing.T) {
		makePod(t, client, "first", "nobody", "5", "sleep", "infinity")
		makePod(t, client, "second", "nobody", "5", "sleep", "infinity")
		bind(t, client, "first", "cpu-0")
		awaitPhase(t, client, "first", v1.PodRunning)
		bind(t, client, "second", "cpu-0")
		if pod := awaitPhase(t, client, "second", v1.PodFailed); pod.Status.Reason != "OutOfcpu" {
			t.Errorf("reason %q", pod.Status.Reason)
		}
		if count := testbed(t, "refusals", "--dir", dir); count != "1" {
			t.Errorf("%s pods were refused", count)
		}
	})
	t.Run("a pod ends while the API server is away", func(t *testing.T) {
		makePod(t, client, "steady", "nobody", "1", "sleep", "1")
		bind(t, client, "steady", "cpu-1")
		awaitPhase(t, client, "steady", v1.PodRunning)
		testbed(t, "restart", "--dir", dir, "kube-apiserver")
		awaitPhase(t, client, "steady", v1.PodSucceeded)
	})
	t.Run("restarted kubelets keep their pods, and deleted nodes stay deleted", func(t *testing.T) {
		if err := client.CoreV1().Nodes().Delete(t.Context(), "cpu-2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testbed(t, "restart", "--dir", dir, "nodes")
		if pod := awaitPhase(t, client, "first", v1.PodRunning); pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Error("the pod was restarted")
		}
		_, err := client.CoreV1().Nodes().Get(t.Context(), "cpu-2", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the deleted node: %v", err)
		}
	})
	t.Run("a service account has its own rights", func(t *testing.T) {
		path := filepath.Join(dir, "account.kubeconfig")
		if err := controlplane.AccountKubeconfig(t.Context(), dir, "default", "default", path); err != nil {
			t.Fatal(err)
		}
		account, _, err := controlplane.Client(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := account.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing pods: %v", err)
		}
	})
	t.Run("a deleted pod goes", func(t *testing.T) {
		if err := client.CoreV1().Pods("default").Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "pod first is gone", func() bool {
			_, err := client.CoreV1().Pods("default").Get(context.WithoutCancel(t.Context()), "first", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
}

// TestNothingOutlives kills `up` itself, and what started it: a shell, as a test runner would be.
func TestNothingOutlives(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	for name, through := range map[string][]string{
		"the testbed": nil,
		"its starter": {"sh", "-c", `"$@"; true`, "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, dir := startUp(t, through)
			pids := partPIDs(t, dir)
			if len(pids) < 4 {
				t.Fatalf("parts: %v", pids)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all parts have ended", func() bool {
				for _, pid := range pids {
					if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
						return false
					}
				}
				return true
			})
		})
	}
}

func partPIDs(t *testing.T, dir string) []int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "pids", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isZombie returns whether a process has ended and its status was not collected: in a container
// there may be no process that collects it.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
