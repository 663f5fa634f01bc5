// Walks the C interface through cgo and prints what each call answers: once for each way in which JGF documents write their edges.
package main

/*
#include "reapi_cli.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const (
	nodes   = 2
	cores   = 2
	options = `{"load_format": "jgf", "matcher_policy": "low", "match_format": "rv1_nosched"}`
)

func main() {
	for _, edges := range []struct {
		title    string
		down, up string
	}{
		{"down", "{}", ""},
		{"both ways, named", `{"name": {"containment": "contains"}}`, `{"name": {"containment": "in"}}`},
		{"both ways, without names", `{"subsystem": "containment"}`, `{"subsystem": "containment"}`},
	} {
		fmt.Printf("== edges %s\n", edges.title)
		walk(machine(edges.down, edges.up))
	}
}

// machine is a cluster of nodes with cores. Without metadata for them there are no edges up.
func machine(down, up string) string {
	var vertices, edges []string
	vertex := func(kind string, id, rank int, path string) (number int) {
		number = len(vertices)
		vertices = append(vertices, fmt.Sprintf(
			`{"id": "%d", "metadata": {"type": %q, "id": %d, "rank": %d, "paths": {"containment": %q}}}`, number, kind, id, rank, path))
		return number
	}
	edge := func(parent, child int) {
		edges = append(edges, fmt.Sprintf(`{"source": "%d", "target": "%d", "metadata": %s}`, parent, child, down))
		if up != "" {
			edges = append(edges, fmt.Sprintf(`{"source": "%d", "target": "%d", "metadata": %s}`, child, parent, up))
		}
	}
	cluster := vertex("cluster", 0, -1, "/cluster0")
	for rank := range nodes {
		path := fmt.Sprintf("/cluster0/node%d", rank)
		node := vertex("node", rank, rank, path)
		edge(cluster, node)
		for id := range cores {
			edge(node, vertex("core", id, rank, fmt.Sprintf("%s/core%d", path, id)))
		}
	}
	return fmt.Sprintf(`{"graph": {"nodes": [%s], "edges": [%s]}}`, strings.Join(vertices, ","), strings.Join(edges, ","))
}

// wholeNodes is a jobspec for all cores of some nodes, for a minute.
func wholeNodes(count int) string {
	return fmt.Sprintf(`{"version": 1, "resources": [{"type": "node", "count": %d, "with": [
		{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": %d}]}]}],
		"tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 60}}}`, count, cores)
}

func walk(graph string) {
	machine := open(graph)
	defer machine.close()

	machine.satisfy(nodes)
	machine.satisfy(nodes + 1)
	first, granted := machine.match(C.MATCH_ALLOCATE, 1)
	second, _ := machine.match(C.MATCH_ALLOCATE_W_SATISFIABILITY, 1)
	machine.match(C.MATCH_ALLOCATE, 1)
	machine.match(C.MATCH_ALLOCATE_W_SATISFIABILITY, nodes+1)
	reserved, _ := machine.match(C.MATCH_ALLOCATE_ORELSE_RESERVE, 1)
	machine.info(first)
	machine.info(reserved)

	machine.cancel(reserved, false)
	machine.cancel(first, false)
	machine.info(first)
	machine.cancel(first, false)
	machine.cancel(first, true)
	machine.update(100, granted)
	machine.update(101, granted)
	machine.info(100)
	machine.partialCancel(second, `{"version": 1, "execution": {"R_lite": [{"rank": "1"}]}}`)
	machine.cancel(100, false)

	machine.setStatus("/cluster0/node0", C.RESOURCE_DOWN)
	machine.match(C.MATCH_ALLOCATE, nodes)
	machine.setStatus("/cluster0/node0", C.RESOURCE_UP)
	machine.match(C.MATCH_ALLOCATE, nodes)
	machine.stat()
}

// graph is a context that has its graph.
//
// Where a call takes a uint64_t or an int64_t, the methods give it a C.ulong or a C.long: that is how programs in Go
// were written for Fluxion, and they compile only where the header's types are those.
type graph struct {
	context *C.struct_reapi_cli_ctx
}

func open(document string) graph {
	opened := graph{C.reapi_cli_new()}
	text, settings := C.CString(document), C.CString(options)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(settings))
	code, err := C.reapi_cli_initialize(opened.context, text, settings)
	if code != 0 {
		fmt.Fprintf(os.Stderr, "initialize: %s: %s", reason(err), taken(C.reapi_cli_get_err_msg(opened.context)))
		os.Exit(1)
	}
	return opened
}

func (g graph) close() {
	C.reapi_cli_clear_err_msg(g.context)
	fmt.Printf("texts after they were cleared: %q\n", taken(C.reapi_cli_get_err_msg(g.context)))
	C.reapi_cli_destroy(g.context)
}

func (g graph) satisfy(count int) {
	jobspec := C.CString(wholeNodes(count))
	defer C.free(unsafe.Pointer(jobspec))
	var satisfiable bool
	var overhead float64
	code, err := C.reapi_cli_match_satisfy(g.context, jobspec, (*C.bool)(&satisfiable), (*C.double)(&overhead))
	say(code, err, "satisfy %d nodes: %t", count, satisfiable)
}

func (g graph) match(how int, count int) (job uint64, granted string) {
	jobspec := C.CString(wholeNodes(count))
	defer C.free(unsafe.Pointer(jobspec))
	var reserved bool
	var at int64
	var overhead float64
	var text *C.char
	code, err := C.reapi_cli_match(g.context, C.match_op_t(how), jobspec, (*C.ulong)(&job), (*C.bool)(&reserved), &text,
		(*C.long)(&at), (*C.double)(&overhead))
	if code != 0 {
		say(code, err, "match (%d) %d nodes", how, count)
		return 0, ""
	}
	granted = taken(text)
	say(code, err, "match (%d) %d nodes: job %d, reserved %t, at %d, %s", how, count, job, reserved, at, strings.TrimSpace(granted))
	return job, granted
}

func (g graph) info(job uint64) {
	var mode *C.char
	var reserved bool
	var at int64
	var overhead float64
	code, err := C.reapi_cli_info(g.context, C.ulong(job), &mode, (*C.bool)(&reserved), (*C.long)(&at), (*C.double)(&overhead))
	say(code, err, "info %d: %s, reserved %t, at %d", job, taken(mode), reserved, at)
}

func (g graph) update(job uint64, resources string) {
	text := C.CString(resources)
	defer C.free(unsafe.Pointer(text))
	var at int64
	var overhead float64
	var held *C.char
	code, err := C.reapi_cli_update_allocate(g.context, C.ulong(job), text, (*C.long)(&at), (*C.double)(&overhead), &held)
	say(code, err, "update %d: at %d, the same resources: %t", job, at, taken(held) == resources)
}

func (g graph) cancel(job uint64, missingIsFine bool) {
	code, err := C.reapi_cli_cancel(g.context, C.ulong(job), C.bool(missingIsFine))
	say(code, err, "cancel %d, %t", job, missingIsFine)
}

func (g graph) partialCancel(job uint64, resources string) {
	text := C.CString(resources)
	defer C.free(unsafe.Pointer(text))
	var ended bool
	code, err := C.reapi_cli_partial_cancel(g.context, C.ulong(job), text, C.bool(false), (*C.bool)(&ended))
	say(code, err, "cancel a part of %d: ended %t", job, ended)
}

func (g graph) setStatus(path string, status C.resource_status_t) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	code, err := C.reapi_cli_set_status(g.context, text, status)
	say(code, err, "set status of %s to %d", path, status)
	var now C.resource_status_t
	code, err = C.reapi_cli_get_status(g.context, text, &now)
	say(code, err, "status of %s: %d", path, now)
}

func (g graph) stat() {
	code, err := C.reapi_cli_stat(g.context, nil, nil, nil, nil, nil, nil, nil)
	say(code, err, "stat")
}

// taken is the text that the library handed out, freed.
func taken(text *C.char) string {
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text)
}

func say(code C.int, err error, format string, values ...any) {
	answer := "ok"
	if code != 0 {
		answer = fmt.Sprintf("%d, %s", code, reason(err))
	}
	fmt.Printf("%s: %s\n", fmt.Sprintf(format, values...), answer)
}

// reason is the name of what errno said.
func reason(err error) string {
	for number, name := range map[syscall.Errno]string{
		syscall.EBUSY: "EBUSY", syscall.ENODEV: "ENODEV", syscall.EINVAL: "EINVAL", syscall.ENOENT: "ENOENT",
		syscall.EEXIST: "EEXIST", syscall.ENOSYS: "ENOSYS", syscall.EPROTO: "EPROTO",
	} {
		if err == number {
			return name
		}
	}
	return fmt.Sprint(err)
}
