package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/dryrun"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The kinds of work.
const (
	whole     = "whole" // the table into memory
	pandas    = "pandas"
	reading   = "reading" // in blocks, as each of those below
	encoding  = "encoding"
	start     = "start" // of a node: reading, checks and the digest of the rows
	marginals = "marginals"
	embed     = "embed"
	pairs     = "pairs" // the sum of marginals alone, on one core, from encoded records in memory
)

// result is what a process measured of itself.
type result struct {
	What    string  `json:"what"`
	Format  string  `json:"format,omitempty"` // of the file
	Rows    int64   `json:"rows"`
	Cores   int     `json:"cores"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	// PerCore is rows a second of processor time.
	PerCore float64 `json:"rows_per_cpu_second"`
	PeakMiB float64 `json:"peak_mib"`
	Version string  `json:"version,omitempty"` // of pandas
	// The sum of pairs reads so many bytes a record. Triad is the bandwidth of memory in bytes a second.
	Bytes float64 `json:"bytes_a_row,omitempty"`
	Triad float64 `json:"triad_bytes_a_second,omitempty"`
}

// measure does one kind of work on a table.
func measure(ctx context.Context, path, what string) (*result, error) {
	s, err := partition.LoadSchema(schemaPath(path))
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf(path)
	if err != nil {
		return nil, err
	}
	r := &result{What: what, Format: formatOf(path), Rows: rows, Cores: runtime.GOMAXPROCS(0)}
	do := func() error { return work(ctx, s, path, what) }
	if what == pairs {
		if do, err = r.pairs(s, path); err != nil {
			return nil, err
		}
	}
	begin, used := time.Now(), cpu()
	if err := do(); err != nil {
		return nil, err
	}
	r.Seconds, r.CPU = time.Since(begin).Seconds(), cpu()-used
	r.PerCore = float64(rows) / r.CPU
	r.PeakMiB, err = peak()
	return r, err
}

// pairs prepares the sum of pairs alone.
func (r *result) pairs(s *partition.Schema, path string) (func() error, error) {
	stream, err := tabular.OpenStream(s, path, tabular.Options{}, os.TempDir())
	if err != nil {
		return nil, err
	}
	site, err := encoded(s, stream)
	if err != nil {
		return nil, err
	}
	r.Cores, r.Triad = 1, triad()
	r.Bytes = float64(site.Rows.(inMemory).bytes()) / float64(r.Rows)
	return func() error {
		_, err := largest(site, s, path, marginals)
		return err
	}, nil
}

func work(ctx context.Context, s *partition.Schema, path, what string) error {
	if what == whole {
		_, err := tabular.Read(s, path, tabular.Options{})
		return err
	}
	stream, err := tabular.OpenStream(s, path, tabular.Options{}, os.TempDir())
	if err != nil {
		return err
	}
	switch what {
	case reading:
		return stream.Blocks(ctx, func(*partition.Block) error { return nil })
	case encoding:
		encoder, room := encode.New(s), sync.Pool{New: func() any { return new(encode.Encoded) }}
		return stream.Blocks(ctx, func(b *partition.Block) error {
			x := room.Get().(*encode.Encoded)
			defer room.Put(x)
			encoder.EncodeInto(x, b.Table)
			return nil
		})
	case start:
		c := config(path)
		if c.State = filepath.Dir(path); s.UnitColumn() >= 0 {
			c.Unit = s.Columns[s.UnitColumn()].Name
		}
		_, err := c.Rows().Read(s, nil)
		return err
	}
	site := question.NewStreamedSite(question.NewPublic(s, 1, 1), stream, nil, 1, "")
	_, err = largest(site, s, path, what)
	return err
}

// largest is the answer to the last question of a pipeline, which is its largest.
func largest(site *question.Site, s *partition.Schema, path, pipeline string) ([]int64, error) {
	spec, err := dryrun.Spec(config(path), pipeline, 1, 1e-6)
	if err != nil {
		return nil, err
	}
	_, questions, err := run.Questions(spec, s, run.Node{Dataset: "d", Site: "s", Node: "0", Teachers: 1})
	if err != nil {
		return nil, err
	}
	round := questions[len(questions)-1].Round
	asked, err := kinds.All().Read(site.Public, round.GetKind(), round.GetParams())
	if err != nil {
		return nil, err
	}
	return asked.Sum(site, question.Round{})
}

func config(path string) node.Config {
	c := node.DefaultConfig()
	c.Dataset, c.Site, c.Schema, c.Data, c.Stream, c.Teachers = "d", "s", schemaPath(path), path, true, 1
	return c
}

// cpu is the processor time of the process, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peak is the most memory that the process ever had (VmHWM), in MiB.
func peak() (float64, error) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("the system does not say how much memory the process had")
}
