package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fluxqueue/tests/testbed/component"
)

// Guest is a program that runs against a testbed for a while. It ends with this process, as the parts do.
type Guest struct{ part *part }

// StartScheduler starts a kube-scheduler in a testbed that was started without.
func (t *Testbed) StartScheduler() (*Guest, error) {
	args, err := schedulerArguments(t.options.Dir)
	if err != nil {
		return nil, err
	}
	if t.options.Workloads {
		args = append(args, workloadGates)
	}
	return t.startGuest(&part{name: component.Scheduler, dir: t.options.Dir, args: args})
}

// StartFluxqueue starts the Fluxqueue at path as a service account, or as the administrator if account is empty; flags are more of its own.
func (t *Testbed) StartFluxqueue(ctx context.Context, path, namespace, account string, flags ...string) (*Guest, error) {
	kubeconfig := t.Kubeconfig()
	if account != "" {
		kubeconfig = filepath.Join(t.options.Dir, "fluxqueue.kubeconfig")
		if err := AccountKubeconfig(ctx, t.options.Dir, namespace, account, kubeconfig); err != nil {
			return nil, err
		}
	}
	// Of a free port, so that testbeds run side by side.
	args := []string{"run", "--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-bind-address=127.0.0.1:0"}
	args = append(args, flags...)
	return t.StartProgram("fluxqueue", path, args)
}

// StartProgram starts the program at path. Its log is name's, in the testbed's directory.
func (t *Testbed) StartProgram(name, path string, args []string) (*Guest, error) {
	return t.startGuest(&part{name: name, dir: t.options.Dir, program: path, args: args})
}

func (t *Testbed) startGuest(p *part) (*Guest, error) {
	if err := p.start(); err != nil {
		return nil, err
	}
	return &Guest{p}, nil
}

// Stop ends the program, by SIGTERM first.
func (g *Guest) Stop() error { return g.part.stop(syscall.SIGTERM) }

// Alive returns whether the program runs, and if not, its last output.
func (g *Guest) Alive() (bool, string) {
	if g.part.alive() {
		return true, ""
	}
	return false, tail(g.part.logFile())
}

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = time.Second / 100

// Usage returns the processor time of the running program so far, and the most memory it had.
func (g *Guest) Usage() (cpu time.Duration, memoryBytes int64, err error) {
	g.part.mu.Lock()
	process := filepath.Join("/proc", strconv.Itoa(g.part.cmd.Process.Pid))
	g.part.mu.Unlock()
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The name, in parentheses, may hold anything. User and system time are the 12th and 13th field after it.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("%s/stat has %d fields", process, len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		cpu += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return cpu, kilobytes << 10, err
		}
	}
	return cpu, 0, fmt.Errorf("%s/status has no VmHWM", process)
}
