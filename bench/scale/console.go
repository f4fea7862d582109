package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/console/cluster"
	"github.com/conclave-dp/conclave/internal/student"
)

// consoleTimes are the output. Times are in milliseconds.
type consoleTimes struct {
	Nodes int     `json:"nodes"`
	Runs  int     `json:"runs"`
	Cores int     `json:"cores"`
	List  float64 `json:"list_ms"` // the aggregator's list of all runs and nodes, over the wire
	First float64 `json:"first_page_ms"`
	Pages []page  `json:"pages"`
	// Event is the time from cancelling a run to the page that shows it: the median and the longest.
	Event  float64 `json:"event_to_page_ms"`
	Slow   float64 `json:"slowest_event_to_page_ms"`
	Events int     `json:"events"`
}

type page struct {
	Path   string  `json:"path"`
	Median float64 `json:"median_ms"`
	Most   float64 `json:"most_ms"`
	Bytes  int     `json:"bytes"`
}

// consoleCommand measures how long pages of the console take, and how soon they show a change, at an aggregator with
// many nodes and runs.
func consoleCommand() *cobra.Command {
	c := &cobra.Command{Use: "console [flags]", Short: "time the console's pages with a large cluster"}
	nodes := c.Flags().Int("nodes", 1000, "number of connected nodes")
	runs := c.Flags().Int("runs", 10_000, "number of runs, most of them closed")
	turns := c.Flags().Int("turns", 50, "requests for each page")
	events := c.Flags().Int("events", 10, "runs to cancel while a page shows them")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *nodes < 1 || *events < 1 || *turns < 1 || *runs < *events {
			return cli.Misuse("--nodes, --turns, --events: use at least 1, and --runs at least as many as --events")
		}
		times, err := measureConsole(c.Context(), *nodes, *runs, *turns, *events)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(times, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Println(string(text))
		return err
	}
	return c
}

func measureConsole(ctx context.Context, nodes, runs, turns, events int) (*consoleTimes, error) {
	dir, err := os.MkdirTemp("", "console") // short, for the Unix socket below it
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r, err := newConsoleCluster(ctx, dir, nodes, runs, events)
	if err != nil {
		return nil, err
	}
	defer r.close()
	out := &consoleTimes{Nodes: nodes, Runs: runs, Cores: runtime.GOMAXPROCS(0), Events: events}
	if out.List, err = r.list(ctx); err != nil {
		return nil, err
	}
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset = r.address, dataset
	config.TLS = certs.IssuedFiles(filepath.Join(dir, "certs"), certs.RoleOperator, "desk")
	served := make(chan error, 1)
	address := make(chan string, 1)
	serving, stop := context.WithCancel(ctx)
	go func() {
		served <- cluster.Run(serving, cluster.Options{Listen: "127.0.0.1:0", Config: config, Log: zap.NewNop()},
			func(at string) error { address <- at; return nil })
	}()
	defer func() { stop(); <-served }()
	var at string
	select {
	case at = <-address:
	case err := <-served:
		served <- nil
		return nil, err
	}
	b := &browser{base: at[:strings.Index(at, "/open")]}
	if b.Jar, err = cookiejar.New(nil); err != nil {
		return nil, err
	}
	if _, err := b.get(ctx, strings.TrimPrefix(at, b.base)); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := b.get(ctx, "/"); err != nil {
		return nil, err
	}
	out.First = milliseconds(time.Since(began))
	for _, path := range []string{"/", "/runs", "/runs?q=run-00", "/runs?page=100", "/queue", "/nodes",
		"/nodes?q=node-7",
		"/budgets", "/certificates", "/runs/" + r.open[0]} {
		p := page{Path: path}
		var took []float64
		for range turns {
			began := time.Now()
			text, err := b.get(ctx, path)
			if err != nil {
				return nil, err
			}
			p.Bytes = len(text)
			took = append(took, milliseconds(time.Since(began)))
		}
		slices.Sort(took)
		p.Median, p.Most = took[len(took)/2], took[len(took)-1]
		out.Pages = append(out.Pages, p)
	}
	var told []float64
	for _, run := range r.open[:events] {
		took, err := b.event(ctx, "/queue", run, func() error { return r.cancel(ctx, run) })
		if err != nil {
			return nil, err
		}
		told = append(told, milliseconds(took))
	}
	slices.Sort(told)
	out.Event, out.Slow = told[len(told)/2], told[len(told)-1]
	return out, nil
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// browser requests pages as a browser does.
type browser struct {
	http.Client
	base string
}

// ask requests an address below that of the console.
func (b *browser) ask(ctx context.Context, address string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r, err := b.Do(q)
	if err == nil && r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		return nil, errors.Join(fmt.Errorf("%s: %s: %s", q.URL.Path, r.Status, text), r.Body.Close())
	}
	return r, err
}

func (b *browser) get(ctx context.Context, path string) (string, error) {
	r, err := b.ask(ctx, b.base+path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// event waits, as the script of a page does, until the page no longer shows a run that is cancelled.
func (b *browser) event(ctx context.Context, path, run string, cancel func() error) (time.Duration, error) {
	text, err := b.get(ctx, path)
	if err != nil {
		return 0, err
	}
	if !strings.Contains(text, ">"+run+"<") {
		return 0, fmt.Errorf("%s does not show run %s", path, run)
	}
	_, after, _ := strings.Cut(text, `data-events="`)
	events, _, _ := strings.Cut(after, `"`) // from the root of the host, as links of pages are
	base, err := url.Parse(b.base)
	if err != nil {
		return 0, err
	}
	address, err := base.Parse(events)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := b.ask(ctx, address.String())
	if err != nil {
		return 0, err
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Scan() // the stream is there
	if err := cancel(); err != nil {
		return 0, err
	}
	began := time.Now()
	for lines.Scan() {
		if lines.Text() != "event: change" {
			continue
		}
		if text, err = b.get(ctx, path); err != nil {
			return 0, err
		}
		if !strings.Contains(text, ">"+run+"<") {
			return time.Since(began), nil
		}
	}
	return 0, errors.Join(errors.New("the events ended"), lines.Err())
}
