package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken below the range from which the kernel gives ports to outgoing connections, so that a part which
// is restarted finds its port free.
const (
	portFirst    = 12000
	portLast     = 31999
	portTriesMax = 200
)

// freePorts returns n different loopback ports without a listener.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range portTriesMax {
		if len(ports) == n {
			return ports, nil
		}
		port := portFirst + rand.IntN(portLast-portFirst+1)
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		// Held until all are found, so that none is found twice.
		defer listener.Close()
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d after %d tries", n, portFirst, portLast, portTriesMax)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
