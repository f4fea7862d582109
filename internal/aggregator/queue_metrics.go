package aggregator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-dp/conclave/coordinator"
)

var queuedDesc = prometheus.NewDesc("conclave_queued_runs", "Runs that were submitted, by their state.", []string{"dataset", "state"}, nil)

// collectQueue shows how many runs of a dataset's queue are in each state.
func (s *Server) collectQueue(dataset string, ch chan<- prometheus.Metric) {
	counts := map[coordinator.State]int{}
	for _, e := range s.queue.list(dataset) {
		counts[e.record.State]++
	}
	for state := range states {
		ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(counts[state]), dataset, string(state))
	}
}
