package controlplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a part may take to end after SIGTERM before it is killed.
const stopGrace = 3 * time.Second

// WatchStdinVariable is set in a child's environment. The child ends itself when its standard input ends, which is
// when this process is gone, however it went.
const WatchStdinVariable = "TESTBED_STOP_WITH_STDIN"

// DieWithParent ends this process when the process that started it is gone. It returns at once, and does nothing in
// a process that [part] did not start.
func DieWithParent() {
	if os.Getenv(WatchStdinVariable) == "" {
		return
	}
	_ = os.Unsetenv(WatchStdinVariable)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// part is one child process: a component of the control plane, or the simulated nodes.
type part struct {
	name    string
	dir     string
	program string   // another program's path; empty for this one, which gets name as its first argument
	args    []string // recomputed by nobody: a restarted part gets the ports it had
	restart []string // arguments of a later start, where they differ from the first

	mu      sync.Mutex
	cmd     *exec.Cmd
	stdin   io.Closer
	done    chan struct{} // closed when cmd has ended
	wanted  bool          // an end that was not asked for is reported
	started int
}

func (p *part) logFile() string { return filepath.Join(p.dir, "logs", p.name+".log") }
func (p *part) pidFile() string { return filepath.Join(p.dir, "pids", p.name) }

// spawner starts children from one thread that lives as long as this process. The kernel sends the parent-death
// signal when the thread that started a child ends, and Go ends threads as it likes.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func (p *part) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s runs already, as process %d", p.name, p.cmd.Process.Pid)
	}
	cmd, err := p.command()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), WatchStdinVariable+"=1")
	// A group of its own: Ctrl-C at a terminal reaches only this process, which then stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.cmd, p.stdin, p.done, p.wanted = cmd, stdin, make(chan struct{}), true
	p.started++
	go p.wait(cmd, p.done)
	return os.WriteFile(p.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644)
}

// command must be called with mu held.
func (p *part) command() (*exec.Cmd, error) {
	args := p.args
	if p.started > 0 && p.restart != nil {
		args = p.restart
	}
	if p.program != "" {
		return exec.Command(p.program, args...), nil
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return exec.Command(executable, append([]string{p.name}, args...)...), nil
}

func (p *part) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	close(done)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted && p.cmd == cmd {
		fmt.Fprintf(os.Stderr, "testbed: %s ended (%v); its log is %s\n", p.name, err, p.logFile())
	}
}

// running must be called with mu held.
func (p *part) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// alive says whether the process is there.
func (p *part) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// stop ends the part, by signal first and then by force, and returns when it is gone.
func (p *part) stop(signal syscall.Signal) error {
	p.mu.Lock()
	p.wanted = false
	if !p.running() {
		p.mu.Unlock()
		return nil
	}
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling %s: %w", p.name, err)
	}
	select {
	case <-done:
		return nil
	case <-time.After(stopGrace):
	}
	_ = cmd.Process.Kill()
	<-done
	return nil
}
