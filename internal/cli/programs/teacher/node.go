package teacher

import (
	"context"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/node"
)

// work runs the node until a signal.
func work(ctx context.Context, path string) error {
	config, err := node.LoadConfig(path)
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	n, err := newNode(ctx, config, log)
	if n == nil {
		return err
	}
	n.ControlLevel(level)
	return n.Run(ctx)
}

// newNode reads the site's records, which may take minutes from a database. A signal ends that at once, with neither
// a node nor an error.
func newNode(ctx context.Context, config node.Config, log *zap.Logger) (*node.Node, error) {
	type made struct {
		node *node.Node
		err  error
	}
	done := make(chan made, 1)
	go func() {
		n, err := node.New(config, kinds.All(), log)
		done <- made{n, err}
	}()
	select {
	case m := <-done:
		return m.node, m.err
	case <-ctx.Done():
		return nil, nil
	}
}
