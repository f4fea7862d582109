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

	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Site is a site's records, read and checked, before there is an aggregator. Making one writes nothing, so that a
// mistake leaves no trace.
type Site struct {
	cfg  Config
	rows rows.Rows
	// key and division are set if the key existed already; at a first start division is nil.
	key      partition.Key
	division *rows.Division
	// ledger is the known head of the dataset's ledger from earlier starts.
	ledger *ledgerHead
	kinds  question.Registry
}

// ReadSite reads the configured schema and records and checks them like [NewSite]. warn, which may be nil, receives
// oddities of the source that are not errors.
func ReadSite(cfg Config, kinds question.Registry, warn func(string)) (*Site, error) {
	if err := cfg.validateSite(); err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	read, err := cfg.Rows().Read(schema, warn)
	if err != nil {
		return nil, partition.AskOperator(err)
	}
	return NewSiteOf(cfg, read, kinds)
}

// SiteStructure is [ReadSite] without reading rows, see [rows.Config.Structure]: the site cannot answer.
func SiteStructure(cfg Config, kinds question.Registry, warn func(string)) (*Site, error) {
	if err := cfg.validateSite(); err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	structure, err := cfg.Rows().Structure(schema, warn)
	if err != nil {
		return nil, partition.AskOperator(err)
	}
	return NewSiteOf(cfg, structure, kinds)
}

// NewSite is [NewSiteOf] for a table in memory.
func NewSite(cfg Config, table *partition.Table, kinds question.Registry) (*Site, error) {
	return NewSiteOf(cfg, rows.InMemory{Table: table}, kinds)
}

// NewSiteOf checks that records can be divided among the node's teachers and that the partitions equal those of
// earlier starts. The rows must be the node's own. The configuration needs no aggregator address, and uses its file
// names only in errors.
func NewSiteOf(cfg Config, read rows.Rows, kinds question.Registry) (*Site, error) {
	if err := cfg.validateSite(); err != nil {
		return nil, err
	}
	s := &Site{cfg: cfg, rows: read, kinds: kinds}
	stored, err := rows.LoadManifest(s.manifestPath())
	if err != nil {
		return nil, err
	}
	if s.ledger, err = loadLedgerHead(ledgerHeadPath(cfg.State)); err != nil {
		return nil, err
	}
	switch _, err := os.Stat(s.keyPath()); {
	case err == nil:
		if s.key, err = partition.LoadOrCreateKey(s.keyPath()); err != nil {
			return nil, err
		}
		if s.division, err = read.Divide(cfg.Rows(), &s.key); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the partition key: %w; make the state folder readable", err)
	case stored != nil:
		return nil, fmt.Errorf("%s is missing, but %s exists; restore it from a backup, because a new key assigns "+
			"units to other teachers",
			s.keyPath(), s.manifestPath())
	default:
		if _, err := read.Divide(cfg.Rows(), nil); err != nil {
			return nil, err
		}
	}
	if stored != nil {
		if err := s.division.Manifest.CheckAgainst(stored); err != nil {
			return nil, fmt.Errorf("%s: %w", s.manifestPath(), err)
		}
	}
	return s, nil
}

// CheckRound reports whether the site's node would refuse a round of a run, whatever its records. Calling it before
// the run is open costs nothing.
func (s *Site) CheckRound(r *conclavev1.Round) error {
	_, err := check(s.kinds, s.public(), r, false)
	return err
}

// CheckKind reports why the site's node would refuse all questions of a kind.
func (s *Site) CheckKind(kind string) error { return s.kinds.Check(s.public(), kind) }

// Name is the site's name.
func (s *Site) Name() string { return s.cfg.Site }

// Node makes the node for the aggregator at an address, host:port. A site's first start creates the state folder and
// the partition key, which does not depend on the configuration. The manifest, which binds the node to its
// configuration and data, is stored after the aggregator's welcome.
func (s *Site) Node(aggregator string, log *zap.Logger) (*Node, error) {
	if err := checkAddress(aggregator); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.cfg.State, 0o700); err != nil {
		return nil, fmt.Errorf("create the state folder: %w; give a writable folder", err)
	}
	key, err := partition.LoadOrCreateKey(s.keyPath())
	if err != nil {
		return nil, err
	}
	if s.division == nil || key != s.key {
		s.key = key
		if s.division, err = s.rows.Divide(s.cfg.Rows(), &key); err != nil {
			return nil, err
		}
	}
	if _, err := checkManifest(s.manifestPath(), s.division.Manifest); err != nil {
		return nil, err
	}
	cfg := s.cfg
	cfg.Aggregator = aggregator
	w := &watch{metrics: newMetrics()}
	site := s.rows.Site(s.public(), s.division, cfg.Rows())
	return &Node{
		cfg: cfg, log: log, kinds: s.kinds, site: site, ledger: s.ledger,
		manifest: storedManifest{Manifest: s.division.Manifest, path: s.manifestPath()},
		policy:   newPolicy(cfg, site, unitsBy(s.rows, cfg.Rows()), w, log), watch: w, masks: newMasks(cfg),
	}, nil
}

// public is what questions are checked against.
func (s *Site) public() *question.Public { return s.cfg.public(s.Schema()) }

func (c Config) public(schema *partition.Schema) *question.Public {
	p := question.NewPublic(schema, c.Teachers, question.Seed(c.Site, c.Node))
	p.MaxSteps, p.Streams, p.Pushes = c.MaxSteps, c.Stream, c.SQL.Pushdown
	p.Divides = c.Stream && !c.SQL.Set()
	return p
}

// CheckKind reports why a node of this configuration would refuse all questions of a kind. It reads no records.
func (c Config) CheckKind(all question.Registry, schema *partition.Schema, kind string) error {
	return all.Check(c.public(schema), kind)
}

func (s *Site) keyPath() string      { return rows.KeyPath(s.cfg.State) }
func (s *Site) manifestPath() string { return rows.ManifestPath(s.cfg.State) }

// Draw returns a round with random records in place of the generated ones.
func (s *Site) Draw(r *conclavev1.Round, rng *rand.Rand) *conclavev1.Round {
	drawn := proto.Clone(r).(*conclavev1.Round)
	if draw := s.kinds[r.GetKind()].Draw; draw != nil {
		drawn.Params = draw(r.GetParams(), rng)
	}
	return drawn
}

// Rehearse answers rounds as the site's node would, with untrained teachers, and stores nothing. The answers are
// PRIVATE to the site: they have no noise.
func (s *Site) Rehearse(rounds []*conclavev1.Round) (answers []*conclavev1.WorkRequest, err error) {
	dir, err := os.MkdirTemp("", "rehearsal-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("create a folder for the dry run: %w; set TMPDIR to a writable folder", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := s.cfg
	cfg.Policy, cfg.State = "", dir
	key, err := os.ReadFile(s.keyPath())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "partition.key"), key, 0o600)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // any division works
	}
	if err != nil {
		return nil, fmt.Errorf("copy the partition key for the dry run: %w", err)
	}
	site, err := NewSiteOf(cfg, s.rows, s.kinds)
	if err != nil {
		return nil, err
	}
	node, err := site.Node("127.0.0.1:1", zap.NewNop()) // nobody dials it
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
