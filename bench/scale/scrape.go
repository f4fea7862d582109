package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// gauges are a process' metrics by name; those of one name with labels are added up, and
// are also under each name{labels}.
type gauges map[string]float64

func scrape(ctx context.Context, address string) (gauges, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %s", address, response.Status)
	}
	return readGauges(response.Body)
}

func readGauges(from io.Reader) (gauges, error) {
	g := gauges{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		series := line[:cut]
		name, _, labelled := strings.Cut(series, "{")
		g[name] += value
		if labelled {
			g[series] = value
		}
	}
	return g, lines.Err()
}

// Metrics of every process that is measured.
const (
	cpuMetric   = "process_cpu_seconds_total"
	rssMetric   = "process_resident_memory_bytes"
	fdsMetric   = "process_open_fds"
	heapMetric  = "go_memstats_heap_inuse_bytes"
	stackMetric = "go_memstats_stack_inuse_bytes"
	etcdSeconds = `conclave_etcd_request_seconds_sum{code="OK",method="Txn"}`
	etcdCount   = `conclave_etcd_request_seconds_count{code="OK",method="Txn"}`
)

// socketBytes is the series of a side's bytes, direction down or up.
func socketBytes(side, direction string) string {
	return fmt.Sprintf(`%s{direction=%q,side=%q}`, bytesMetric, direction, side)
}
