package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// suite is upstream's program e2e.test, and where it writes.
type suite struct {
	program string
	dir     string // gets a log and a report for each run
	timeout time.Duration
}

// listTimeout bounds a run that only lists specs.
const listTimeout = time.Minute

// cleanUp is the time that a spec gets, after its own, to remove its objects. Then it is killed.
const cleanUp = time.Minute

// list names the specs with a full text that matches focus, and not skip, in the order of their
// names. An empty list is an error: a suite that runs nothing passes.
func (s *suite) list(ctx context.Context, focus, skip string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	args := []string{"--ginkgo.dry-run", "--ginkgo.focus=" + focus}
	if skip != "" {
		args = append(args, "--ginkgo.skip="+skip)
	}
	report, err := s.execute(ctx, "list", args...)
	if err != nil {
		return nil, fmt.Errorf("listing the specs of %s: %w", s.program, err)
	}
	specs := report.chosen()
	if len(specs) == 0 {
		return nil, fmt.Errorf("%s has no spec that matches %q and not %q", s.program, focus, skip)
	}
	return specs, nil
}

// run runs one spec against a cluster. An outcome is always there: what keeps a spec from having one is its outcome.
func (s *suite) run(ctx context.Context, kubeconfig, name, spec string) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+cleanUp)
	defer cancel()
	begin := time.Now()
	report, err := s.execute(ctx, name,
		"--kubeconfig="+kubeconfig, "--provider=skeleton", "--disable-log-dump",
		"--ginkgo.timeout="+s.timeout.String(),
		// Its text is the end of the text that the focus is compared with.
		"--ginkgo.focus="+regexp.QuoteMeta(spec)+"$")
	o := outcome{took: time.Since(begin)}
	if err != nil {
		o.state, o.message = broken, err.Error()
		return o
	}
	o.state, o.message = report.of(spec)
	return o
}

// execute runs the program and reads its report. That specs fail shows in the report, and is no error.
func (s *suite) execute(ctx context.Context, name string, args ...string) (*report, error) {
	path := filepath.Join(s.dir, name+".json")
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.program, append(args, "--ginkgo.json-report="+path, "--ginkgo.no-color", "--ginkgo.silence-skips")...)
	cmd.Stdout, cmd.Stderr = log, log
	// Whatever it has started goes with it, and so does it with this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("killed: %w", ctx.Err())
	}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	report, err := readReport(path)
	if err != nil {
		return nil, fmt.Errorf("%w, after %v; its log is %s", err, cmd.ProcessState, log.Name())
	}
	return report, nil
}
