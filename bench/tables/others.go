package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/partition/tabular"
)

// programs are those of others that make rows of the same real rows with the same budget. Each is an executable
// file in a folder, named as its case, and is called as: NAME SCHEMA TRAIN EPSILON DELTA ROWS OUT. It writes a
// CSV file of ROWS rows to OUT.
type programs struct {
	folder string
	// limit bounds the processor time of a run: one that takes longer failed.
	limit time.Duration
}

func (p *programs) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.folder, "others", "",
		"`folder` of programs aim and mst, called as: NAME SCHEMA TRAIN EPSILON DELTA ROWS OUT; one may be missing")
	c.Flags().DurationVar(&p.limit, "limit", 15*time.Minute, "most processor time of a run of these programs")
}

// rows are those of a program; nil without the program.
func (p *programs) rows(ctx context.Context, a *attempt) (*table, error) {
	if p.folder == "" {
		return nil, nil
	}
	program, err := filepath.Abs(filepath.Join(p.folder, a.runCase.name))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	out := filepath.Join(a.dir, "rows.csv")
	// The shell sets the limit and becomes the program.
	c := exec.CommandContext(ctx, "sh", "-c", `ulimit -S -t "$0" && exec "$@"`, fmt.Sprint(int(p.limit.Seconds())),
		program, a.data.schemaPath, a.data.trainPath, fmt.Sprint(a.epsilon), fmt.Sprint(a.delta),
		fmt.Sprint(a.group.rows), out)
	var said bytes.Buffer
	c.Stderr, c.WaitDelay = &said, time.Second
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, err
		}
		if ended, _ := exit.Sys().(syscall.WaitStatus); ended.Signal() == syscall.SIGXCPU {
			return nil, fmt.Errorf("it did not end within %v of processor time", p.limit)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return tabular.Read(a.data.train.Schema(), out, tabular.Options{IgnoreUnit: true})
}
