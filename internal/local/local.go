// Package local runs a whole cluster on one machine: an authority, an aggregator with an embedded etcd, a node for
// each site, and the student. Each is the real program code, and they talk over TLS on loopback sockets.
//
// Start with [Run]. A local run lacks what a real cluster is for: one process has the data of all sites, so the sites
// trust the person who runs it. The guarantee for its releases is the same, but it holds for one output folder. Each
// folder has its own ledger, and nobody adds up what runs in other folders spent on the same data.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

const dataset = "local"

// Options say where and how a local run works.
type Options struct {
	// Out is the folder for the results. The cluster's state is stored below it, so that an interrupted run
	// resumes when it is started again.
	Out string
	// Coin replaces votes with coin flips, the baseline.
	Coin bool
	// Hooks see PRIVATE values, for measurements and tests.
	Hooks aggregator.Hooks
	// Log receives the log of all roles; nil logs nothing.
	Log *zap.Logger
	// Watch is called with the run's status. May be nil.
	Watch func(run.Status)
	// Register is the folder of the register of data files; see [RegisterDir]. Empty for none.
	Register string
	// Warn is called before anything is asked, with warnings about the run. If it is nil, they are logged.
	Warn func(sentence string)

	// HoldOut holds rows out of the training for the report, as the run.yaml says, if it names no test rows.
	HoldOut bool

	notes []string // what the register says, for the certificate
}

// warn passes a warning to Warn, or to the log if Warn is nil.
func (o Options) warn(sentence string) {
	if o.Warn != nil {
		o.Warn(sentence)
		return
	}
	o.Log.Warn("about the run", zap.String("warning", sentence))
}

// ErrFinished says that the folder holds a finished run. Nothing was started.
var ErrFinished = errors.New("the output folder has a finished run")

// Run executes a spec on its own cluster and then stops the cluster. If ctx ends first, or anything fails, running
// the same spec in the same folder again resumes the run.
func Run(ctx context.Context, spec *runfile.Spec, o Options) (result *results.Result, err error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if len(spec.Data) == 0 {
		return nil, fmt.Errorf("%s: data: a local run needs the sites' files; list at least one", spec.Path)
	}
	if err := checkUnfinished(o.Out); err != nil {
		return nil, err
	}
	// Everything that can be wrong with the spec and its files is found before
	// anything is written or started.
	job, err := run.Prepare(spec)
	if err != nil {
		return nil, err
	}
	state := filepath.Join(o.Out, "state")
	held, err := heldShare(state, spec, job.Schema, o.HoldOut)
	if err != nil {
		return nil, err
	}
	configs, err := nodeConfigs(spec, job.Schema, state, held)
	if err != nil {
		return nil, err
	}
	if err := checkStages(configs, job, spec.Path); err != nil {
		return nil, err
	}
	if held > 0 {
		rows, err := divided(spec, job.Schema, partsOf(spec, job.Schema, held), held)
		if err != nil {
			return nil, err
		}
		if rows.Test.Len() == 0 {
			o.warn(fmt.Sprintf("No row was held out for the report, so it compares nothing with real rows. A public "+
				"hash selects the %g%% of the rows that are held out; in a small file it may select none. Name "+
				"test rows with evaluate.test in run.yaml, or later with conclave report --test.", 100*held))
		}
		job.CompareWith(rows)
	}
	if _, missing := os.Stat(filepath.Join(state, "etcd")); missing == nil {
		defer func() { err = resumed(err, o.Out) }()
	}
	sites, err := readSites(configs, o.warn)
	if err != nil {
		return nil, err
	}
	round := job.Round()
	for _, s := range sites {
		if err := s.CheckRound(round); err != nil {
			return nil, fmt.Errorf("%s: %s: the teachers of site %s would refuse the rounds: %w",
				spec.Path, spec.Pipeline, s.Name(), err)
		}
	}
	if err := makeFolders(o.Out, state); err != nil {
		return nil, err
	}
	if err := keepHeldShare(state, held); err != nil {
		return nil, err
	}
	o.notes = registerFiles(job, state, o)
	if err := issueCertificates(filepath.Join(state, "certs"), spec); err != nil {
		return nil, err
	}
	if spec.Aggregation.Masked {
		if spec.Aggregation.Members, err = members(filepath.Join(state, "certs"), spec); err != nil {
			return nil, err
		}
	}

	return cluster(ctx, job, job, sites, state, o)
}

// checkStages refuses stages whose questions a site would refuse once the training is paid for.
func checkStages(configs []node.Config, job *run.Job, path string) error {
	for _, stage := range job.Plan.Stages {
		for _, c := range configs {
			if err := c.CheckKind(kinds.All(), job.Schema, stage.Kind); err != nil {
				return fmt.Errorf("%s: site %s would refuse the %s after the training: %w; or leave out that stage "+
					"of post or weights", path, c.Site, stage.Stage, err)
			}
		}
	}
	return nil
}

// registerFiles records the run's budget for its data files. The register is a convenience: if it cannot be
// written, the run continues with a warning.
func registerFiles(job *run.Job, state string, o Options) []string {
	if o.Register == "" {
		return nil
	}
	var files []string
	var notes, details []string
	var err error
	for _, d := range job.Spec.Data {
		parts, missing := tabular.Files(d.File)
		files, err = append(files, parts...), errors.Join(err, missing)
	}
	if err == nil {
		notes, details, err = register(o.Register, state, o.Out, files, job.DatasetBudget())
	}
	if err != nil {
		o.warn(fmt.Sprintf("Cannot check whether these data files have a budget elsewhere: %v.", err))
	}
	for _, sentence := range details {
		o.warn(sentence)
	}
	return notes
}

// checkUnfinished refuses a folder with a finished run.
func checkUnfinished(out string) error {
	if _, err := os.Stat(filepath.Join(out, "certificate.json")); err == nil {
		return fmt.Errorf("%s: %w; give another folder with --out", out, ErrFinished)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the output folder: %w; give a folder with --out", err)
	}
	return nil
}

// executor is a job, or stages that follow one.
type executor interface {
	Execute(ctx context.Context, o run.Options) (*results.Result, error)
}

// cluster starts the roles of a job on a state folder, lets a student work, and ends them.
func cluster(ctx context.Context, job *run.Job, work executor, sites []*node.Site, state string,
	o Options) (result *results.Result, err error) {
	server, err := startAggregator(ctx, job, state, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	nodes, err := newNodes(sites, server.Addr().String(), o.Log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	for _, n := range nodes {
		group.Go(func() error { return n.Run(ctx) })
	}
	group.Go(func() error {
		defer cancel() // the cluster ends with the student
		var err error
		result, err = executeStudent(ctx, job.Spec.Path, work, server.Addr().String(), state, o)
		return err
	})
	// The first error is the reason why the others ended.
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// resumed adds the likely cause to an error in a folder that an earlier run used.
func resumed(err error, out string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	// A user cannot change the name of a local run's dataset, so the error must not mention it.
	var changed *coordinator.MismatchError
	if errors.As(err, &changed) {
		return fmt.Errorf("the run in %s started with %s %s, now it is %s: restore the old value to continue it, or "+
			"give another folder with --out",
			out, changed.Field, changed.Stored, changed.Given)
	}
	return fmt.Errorf("continue the run in %s: %w; for another run give another folder with --out",
		out, err)
}

// makeFolders creates the folder of the results, which others may read, and that of the cluster's state, which
// holds keys and is private.
func makeFolders(out, state string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("create the folder for the cluster's state: %w", err)
	}
	return nil
}

// executeStudent executes the job of a run.yaml.
func executeStudent(ctx context.Context, path string, work executor, address, state string,
	o Options) (*results.Result, error) {
	c := student.DefaultConfig()
	c.Aggregator, c.Dataset, c.Run, c.Out = address, dataset, path, o.Out
	c.TLS = certs.IssuedFiles(filepath.Join(state, "certs"), certs.RoleStudent, studentName)
	log := o.Log.Named("student")
	client, err := student.Dial(c, log)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return work.Execute(ctx, run.Options{
		Client: client, Dataset: dataset, Out: o.Out, Coin: o.Coin, Log: log, Watch: o.Watch,
		Warn: o.Warn, Notes: o.notes,
	})
}

func startAggregator(ctx context.Context, job *run.Job, state string, o Options) (*aggregator.Server, error) {
	c, spec := aggregator.DefaultConfig(), job.Spec
	c.Name, c.Listen = "local", "127.0.0.1:0"
	c.TLS = certs.IssuedFiles(filepath.Join(state, "certs"), certs.RoleAggregator, c.Name)
	c.Etcd.Embedded, c.Etcd.Dir = true, filepath.Join(state, "etcd")
	c.Datasets = []aggregator.DatasetConfig{{
		Name: dataset, SchemaSHA256: job.Schema.SHA256, Unit: spec.Privacy.Unit,
		Overlap: spec.Privacy.Overlap, Budget: job.DatasetBudget(),
	}}
	return aggregator.New(ctx, c, aggregator.Options{
		Logger: o.Log.Named("aggregator"), AllowCoin: o.Coin, Reducers: kinds.Reducers(), Hooks: o.Hooks,
	})
}

const studentName = "student"

// validity is generous, because a local run keeps its authority to itself.
const validity = 30 * 24 * time.Hour

// issueCertificates creates an authority and a certificate for each role, or reuses those of an interrupted run.
func issueCertificates(dir string, spec *runfile.Spec) error {
	type holder struct {
		role  certs.Role
		name  string
		hosts []string
	}
	holders := []holder{
		{certs.RoleAggregator, "local", []string{"127.0.0.1", "localhost"}}, {certs.RoleStudent, studentName, nil},
	}
	for _, d := range spec.Data {
		holders = append(holders, holder{certs.RoleNode, d.Site, nil})
	}
	if err := authority.Create(dir); err != nil && !errors.Is(err, certs.ErrExists) {
		return err
	}
	for _, h := range holders {
		err := authority.Issue(dir, h.role, h.name, h.hosts, validity)
		if err != nil && !errors.Is(err, certs.ErrExists) {
			return err
		}
	}
	return nil
}

// members are the sites of a masked run, with the fingerprints of their certificates.
func members(dir string, spec *runfile.Spec) (all []runfile.Member, err error) {
	for _, d := range spec.Data {
		key, err := pemfile.LoadKey(certs.IssuedFiles(dir, certs.RoleNode, d.Site).Key)
		if err != nil {
			return nil, err
		}
		fingerprint, err := certs.Fingerprint(key.Public())
		if err != nil {
			return nil, err
		}
		all = append(all, runfile.Member{Site: d.Site, Key: fingerprint})
	}
	return all, nil
}

// partsOf returns the parts of the files on which sites train: those of the run.yaml, without held-out rows.
func partsOf(spec *runfile.Spec, schema *partition.Schema, held float64) [][2]float64 {
	parts := spec.Sites(schema)
	for i := range parts {
		parts[i][0], parts[i][1] = parts[i][0]*(1-held), parts[i][1]*(1-held)
	}
	return parts
}

// nodeConfigs prepares a node for each site. Teachers are divided in proportion
// to the sites' public shares, never to their private numbers of records.
func nodeConfigs(spec *runfile.Spec, schema *partition.Schema, state string, held float64) ([]node.Config, error) {
	parts := partsOf(spec, schema, held)
	var total float64
	for _, d := range spec.Data {
		total += d.Share
	}
	if spec.Teachers < len(spec.Data) {
		return nil, fmt.Errorf("%s: teachers: %d are too few for %d sites; give each at least one",
			spec.Path, spec.Teachers, len(spec.Data))
	}
	var configs []node.Config
	left, weight := spec.Teachers, total
	for i, d := range spec.Data {
		c := node.DefaultConfig()
		c.Dataset, c.Site, c.Schema, c.Data, c.Share, c.Unit = dataset, d.Site, spec.Schema, d.File, parts[i],
			spec.Privacy.Unit
		c.Overlap = spec.Privacy.Overlap
		c.Stream, c.SortedBy = d.Stream, d.SortedBy
		later := len(spec.Data) - 1 - i // each later site needs one
		c.Teachers = min(max(1, int(float64(left)*d.Share/weight+0.5)), left-later)
		left, weight = left-c.Teachers, weight-d.Share
		c.State = filepath.Join(state, "node-"+d.Site)
		c.TLS = certs.IssuedFiles(filepath.Join(state, "certs"), certs.RoleNode, d.Site)
		configs = append(configs, c)
	}
	return configs, nil
}

// readSites reads and checks every site's records, also against those of an interrupted run. It writes nothing, so
// that a user can fix the data and start the run again in the same folder.
func readSites(configs []node.Config, warn func(string)) ([]*node.Site, error) {
	var sites []*node.Site
	var wrong siteErrors
	told := map[string]bool{} // sites may share a file
	for _, c := range configs {
		s, err := node.ReadSite(c, kinds.All(), func(odd string) {
			if !told[odd] {
				told[odd] = true
				warn(odd)
			}
		})
		if err != nil {
			wrong.add(c.Site, err)
			continue
		}
		sites = append(sites, s)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return sites, nil
}

// siteErrors are the errors at sites, by site name. An error in a file that sites share appears once.
type siteErrors []error

func (e *siteErrors) add(site string, err error) {
	same := func(have error) bool { return errors.Unwrap(have).Error() == err.Error() }
	if !slices.ContainsFunc(*e, same) {
		*e = append(*e, fmt.Errorf("site %s: %w", site, err))
	}
}

// newNodes makes the sites' nodes, which store their manifests once they are welcomed.
func newNodes(sites []*node.Site, address string, log *zap.Logger) ([]*node.Node, error) {
	var nodes []*node.Node
	for _, s := range sites {
		n, err := s.Node(address, log.Named("teacher").With(zap.String("site", s.Name())))
		if err != nil {
			return nil, fmt.Errorf("site %s: %w", s.Name(), err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
