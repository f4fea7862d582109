package node

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Draw returns a round with records that chance makes in place of the generated ones in it.
func (s *Site) Draw(r *conclavev1.Round, rng *rand.Rand) *conclavev1.Round {
	drawn := proto.Clone(r).(*conclavev1.Round)
	if draw := s.kinds[r.GetKind()].Draw; draw != nil {
		drawn.Params = draw(r.GetParams(), rng)
	}
	return drawn
}

// Rehearse answers rounds as the site's node would, with teachers that begin untrained, and
// keeps nothing. The answers are PRIVATE to the site: nobody adds noise to them.
func (s *Site) Rehearse(rounds []*conclavev1.Round) (answers []*conclavev1.WorkRequest, err error) {
	dir, err := os.MkdirTemp("", "rehearsal-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a folder for the rehearsal: %w; "+
			"set TMPDIR to one that this process may write to", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := s.cfg
	cfg.Policy, cfg.State = "", dir
	key, err := os.ReadFile(s.keyPath())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "partition.key"), key, 0o600)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // any division does
	}
	if err != nil {
		return nil, fmt.Errorf("copy the partition key for the rehearsal: %w", err)
	}
	site, err := NewSiteOf(cfg, s.rows, s.kinds)
	if err != nil {
		return nil, err
	}
	node, err := site.Node("127.0.0.1:1", zap.NewNop()) // which nobody dials
	if err != nil {
		return nil, err
	}
	for i, r := range rounds {
		answer, err := node.answer(&received{round: r, digest: func() string { return fmt.Sprint(i) }}, false, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.GetKind(), err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}
