package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/teacher"
)

// work is the node, until a signal.
func work(ctx context.Context, path string) error {
	config, err := teacher.LoadConfig(path)
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	node, err := newNode(ctx, config, log)
	if node == nil {
		return err
	}
	node.ControlLevel(level)
	return node.Run(ctx)
}

// newNode reads the site's records, which may take minutes of a database; a signal
// ends that at once. Then there is neither a node nor an error.
func newNode(ctx context.Context, config teacher.Config, log *zap.Logger) (*teacher.Node, error) {
	type made struct {
		node *teacher.Node
		err  error
	}
	done := make(chan made, 1)
	go func() {
		node, err := teacher.New(config, log)
		done <- made{node, err}
	}()
	select {
	case m := <-done:
		return m.node, m.err
	case <-ctx.Done():
		return nil, nil
	}
}
