package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ReadyPath is the file that the nodes part makes when all its nodes are usable.
func ReadyPath(dir string) string { return filepath.Join(dir, "pids", "nodes.ready") }

// RefusalsPath is the file to which the simulated kubelets add a line for each pod they refuse.
func RefusalsPath(dir string) string { return filepath.Join(dir, "refusals") }

const (
	controlSocket  = "control.sock"
	controlTimeout = readyTimeout + 10*time.Second
)

// Control asks the testbed that serves dir to do something to one of its parts: `stop`, `kill` or `start` it, or to
// `restart` it, which is a kill and a start. It returns when that is done: a started part is ready.
func Control(dir, verb, name string) error {
	path, closePath, err := socketPath(dir)
	if err != nil {
		return err
	}
	defer closePath()
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err != nil {
		return fmt.Errorf("directory %s: no testbed runs there: %w", dir, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "%s %s\n", verb, name); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("testbed in %s gave no answer: %w", dir, err)
	}
	if answer = strings.TrimSpace(answer); answer != "done" {
		return fmt.Errorf("%s %s: %s", verb, name, answer)
	}
	return nil
}

// socketPath names the socket through an open directory: a socket's own path may have 107 bytes, and the
// directories of tests are longer.
func socketPath(dir string) (string, func(), error) {
	handle, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", handle.Fd(), controlSocket), func() { _ = handle.Close() }, nil
}

func (t *Testbed) serveControl() error {
	if err := os.RemoveAll(filepath.Join(t.options.Dir, controlSocket)); err != nil {
		return err
	}
	path, closePath, err := socketPath(t.options.Dir)
	if err != nil {
		return err
	}
	defer closePath()
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listening for commands in %s: %w", t.options.Dir, err)
	}
	// The path leads through a handle that is closed by the time the listener is.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	t.commands = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go t.answer(conn)
		}
	}()
	return nil
}

func (t *Testbed) answer(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err := t.control(verb, name); err != nil {
		fmt.Fprintln(conn, strings.ReplaceAll(err.Error(), "\n", " | "))
		return
	}
	fmt.Fprintln(conn, "done")
}

func (t *Testbed) control(verb, name string) error {
	p, err := t.part(name)
	if err != nil {
		return err
	}
	switch verb {
	case "stop":
		return p.stop(syscall.SIGTERM)
	case "kill":
		return p.stop(syscall.SIGKILL)
	case "restart":
		if err := p.stop(syscall.SIGKILL); err != nil {
			return err
		}
	case "start":
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
	if name == nodesName {
		if err := os.RemoveAll(ReadyPath(t.options.Dir)); err != nil {
			return err
		}
	}
	if err := p.start(); err != nil {
		return err
	}
	return t.await(context.Background(), p)
}
