package main

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-dp/conclave/internal/monitor"
)

// The metric of the nodes' process that counts bytes on its sockets.
const bytesMetric = "scale_socket_bytes_total"

type traffic struct {
	aggregator, echo direction
	joined           atomic.Int32 // servers that all nodes have joined
}

// registry has the sockets' bytes beside the process' own figures. The labels are the
// server's side and down for what nodes receive, up for what they send.
func (t *traffic) registry() *prometheus.Registry {
	r := monitor.NewRegistry()
	for side, d := range map[string]*direction{aggregatorSide: &t.aggregator, echoSide: &t.echo} {
		for name, count := range map[string]*atomic.Int64{"down": &d.down, "up": &d.up} {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: bytesMetric, Help: "Bytes on the nodes' sockets.",
				ConstLabels: prometheus.Labels{"side": side, "direction": name},
			}, func() float64 { return float64(count.Load()) }))
		}
	}
	return r
}
