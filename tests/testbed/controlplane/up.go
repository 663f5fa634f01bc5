// Package controlplane starts, watches and stops the parts of a control plane on loopback: etcd, API server,
// controllers, optionally kube-scheduler, and the simulated nodes, each a child process of this same program.
//
// The parts are not described here: the real ones are in package component, the nodes in package
// simnode.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fluxqueue/tests/testbed/component"
)

// readyTimeout bounds the wait for each part. A loaded machine is slow; a broken part has ended by then.
const readyTimeout = 3 * time.Minute

// Options say which testbed is wanted.
type Options struct {
	Dir           string // gets everything the testbed writes; made if it is not there
	Nodes         string // node file; empty for none
	Scheduler     bool   // run kube-scheduler
	Kubelets      bool   // simulate the nodes' kubelets; without them the nodes are there, and pods stay as bound
	Controllers   bool   // run kube-controller-manager
	OutliveParent bool   // go on when the process that started this one is gone
	Verbosity     int    // of the API server and the controllers
	Workloads     bool   // the Job controller gives each Job a Workload and a PodGroup (WorkloadWithJob)
}

// Testbed is a control plane that this process has started.
type Testbed struct {
	options  Options
	parts    []*part // in the order of their start
	lock     *os.File
	commands net.Listener
}

// Up starts a testbed, prints `ready` with the path of its kubeconfig, and serves until it gets a
// signal to stop.
func Up(options Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if !options.OutliveParent {
		if err := StopWithParent(stop); err != nil {
			return err
		}
	}
	t, err := Start(ctx, options)
	if err != nil {
		return err
	}
	defer t.Stop()
	fmt.Printf("ready %s\n", t.Kubeconfig())
	<-ctx.Done()
	return nil
}

// Start starts a testbed and returns when the cluster can be used. [Testbed.Stop] ends it.
func Start(ctx context.Context, options Options) (*Testbed, error) {
	t, err := newTestbed(options)
	if err != nil {
		return nil, err
	}
	if err := t.start(ctx); err != nil {
		t.Stop()
		if ctx.Err() != nil {
			return nil, errors.New("stopped before it was ready")
		}
		return nil, err
	}
	return t, nil
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (t *Testbed) Kubeconfig() string { return KubeconfigPath(t.options.Dir, adminName) }

// StopWithParent calls stop when the process that started this one is gone. A parent-death signal would not do: it
// comes when the parent's thread ends, and a test runner's threads do.
func StopWithParent(stop func()) error {
	pid := os.Getppid()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || pid != os.Getppid() {
		return fmt.Errorf("parent process %d is gone already", pid)
	}
	if err != nil {
		return fmt.Errorf("watching parent process %d: %w", pid, err)
	}
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				stop()
				return
			}
		}
	}()
	return nil
}

func newTestbed(options Options) (*Testbed, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	if options.Nodes != "" {
		if options.Nodes, err = filepath.Abs(options.Nodes); err != nil {
			return nil, err
		}
	}
	lock, err := claim(dir)
	if err != nil {
		return nil, err
	}
	t := &Testbed{options: options, lock: lock}
	if err := t.plan(); err != nil {
		lock.Close()
		return nil, err
	}
	return t, nil
}

// claim makes dir this testbed's, until the file is closed.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "lock")
	// The files of an earlier testbed are deleted below. Files in a directory without one belong to a
	// user.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil && len(entries) > 0 {
		return nil, fmt.Errorf("directory %s: neither empty nor a testbed's", dir)
	}
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("directory %s: a testbed runs there already", dir)
	}
	return lock, nil
}

// plan decides ports, keys and arguments of all parts. Each start is a new cluster: what an earlier one left in the
// directory goes.
func (t *Testbed) plan() error {
	dir := t.options.Dir
	for _, old := range []string{"etcd", "refusals", "logs", "pids"} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return err
		}
	}
	for _, sub := range []string{"logs", "pids"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	k, err := makeKeys(dir)
	if err != nil {
		return fmt.Errorf("making certificates in %s: %w", dir, err)
	}
	tokens, err := writeAccess(dir, "https://"+loopback(ports[0]), k)
	if err != nil {
		return fmt.Errorf("writing kubeconfigs in %s: %w", dir, err)
	}
	common := []string{"--v=" + strconv.Itoa(t.options.Verbosity)}
	ofServer := apiServerArguments(k, tokens, ports[0], ports[1])
	if t.options.Workloads {
		apis, err := workloadAPIs()
		if err != nil {
			return err
		}
		common = append(common, workloadGates)
		ofServer = append(ofServer, apis)
	}
	t.add(component.Etcd, etcdArguments(dir, ports[1], ports[2]))
	t.add(component.APIServer, append(ofServer, common...))
	if t.options.Controllers {
		t.add(component.ControllerManager, append(controllerManagerArguments(dir, k), common...))
	}
	if t.options.Scheduler {
		args, err := schedulerArguments(dir)
		if err != nil {
			return err
		}
		t.add(component.Scheduler, append(args, common...))
	}
	nodes := []string{"--dir=" + dir, "--kubelets=" + strconv.FormatBool(t.options.Kubelets),
		"--untaint=" + strconv.FormatBool(!t.options.Controllers)}
	p := t.add(nodesName, nodes)
	if t.options.Nodes != "" {
		// Only the first start makes all nodes of the file. A node that was deleted since stays deleted.
		p.args = append(nodes[:len(nodes):len(nodes)], "--file="+t.options.Nodes, "--create")
		p.restart = append(nodes[:len(nodes):len(nodes)], "--file="+t.options.Nodes)
	}
	return nil
}

func (t *Testbed) add(name string, args []string) *part {
	p := &part{name: name, dir: t.options.Dir, args: args}
	t.parts = append(t.parts, p)
	return p
}

func (t *Testbed) part(name string) (*part, error) {
	for _, p := range t.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no part %q in this testbed", name)
}

// start answers commands, starts each part when those it needs are there, and returns when the cluster can be used.
func (t *Testbed) start(ctx context.Context) error {
	if err := t.serveControl(); err != nil {
		return err
	}
	for _, p := range t.parts {
		if err := p.start(); err != nil {
			return err
		}
		if err := t.await(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// await returns when the part does the work that others rely on, or has ended.
func (t *Testbed) await(ctx context.Context, p *part) error {
	check := t.readiness(p.name)
	deadline := time.Now().Add(readyTimeout)
	for {
		reason := check(ctx)
		switch {
		case reason == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !p.alive():
			return fmt.Errorf("%s ended while starting; the end of its log %s:\n%s", p.name, p.logFile(), tail(p.logFile()))
		case time.Now().After(deadline):
			return fmt.Errorf("%s is not ready after %v: %w; its log is %s", p.name, readyTimeout, reason, p.logFile())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const tailBytes = 2000

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-tailBytes):])
}

// Stop ends all parts, the last started first. The data is not needed any more, so the API server and etcd, which
// would finish their connections first, are not asked.
func (t *Testbed) Stop() {
	for i := len(t.parts) - 1; i >= 0; i-- {
		signal := syscall.SIGTERM
		if name := t.parts[i].name; name == component.Etcd || name == component.APIServer {
			signal = syscall.SIGKILL
		}
		if err := t.parts[i].stop(signal); err != nil {
			fmt.Fprintln(os.Stderr, "testbed:", err)
		}
	}
	if t.commands != nil {
		_ = t.commands.Close()
	}
	_ = os.RemoveAll(filepath.Join(t.options.Dir, "etcd"))
	_ = t.lock.Close()
}
