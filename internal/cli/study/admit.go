package study

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/enroll"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/provision"
)

func admitCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "admit --config operator.yaml [--confirm SITE=FINGERPRINT]... [--partial] [--dir DIR]",
		Short: "admit the sites whose fingerprints were read out, and publish the roster",
		Long: `Waits for the sites' requests, shows the fingerprint of each key, and asks whether the site reads out the
same fingerprint by telephone. After all sites of the study are confirmed, it signs their certificates with the
authority's key, which stays on this machine, and publishes the roster. Read out the roster's fingerprint to the
sites: all must see the same one.`,
	}
	var a admission
	f := c.Flags()
	f.StringVar(&a.config, "config", "", "the operator's YAML `file`, operator/operator.yaml of the study's folder")
	f.StringVar(&a.dir, "dir", "", "the study's `folder` (default: the parent of the file's folder)")
	f.StringToStringVar(&a.told, "confirm", nil, "`SITE=FINGERPRINT` as the site read it out, at least its first 32 "+
		"hex digits")
	f.BoolVar(&a.partial, "partial", false, "admit the sites that have asked, and do not wait for the others")
	a.format = cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if a.config == "" {
			return cli.Misuse("--config: name the operator's YAML file")
		}
		if a.dir == "" {
			a.dir = filepath.Dir(filepath.Dir(filepath.Clean(a.config)))
		}
		return cli.Interrupted(c.Context(), a.run(c.Context()), "interrupted; no roster was published")
	}
	return c
}

// admission is an operator's admission of the sites of a study.
type admission struct {
	config, dir string
	told        map[string]string // fingerprints by site, as people read them out
	partial     bool
	format      *string

	study *study.Study
}

func (a *admission) run(ctx context.Context) error {
	o, err := a.connect()
	if err != nil {
		return err
	}
	defer o.Close()
	for site := range a.told {
		if !slices.Contains(a.study.Sites, site) {
			return fmt.Errorf("--confirm %s=...: the study has no such site; its sites are %s", site,
				strings.Join(a.study.Sites, ", "))
		}
	}
	confirmed, stands, err := a.confirmed(ctx, o)
	if err != nil {
		return err
	}
	if err := a.notOlder(stands); err != nil {
		return err
	}
	if len(confirmed) > 0 {
		life, err := provision.Life(a.study, time.Now())
		if err != nil {
			return err
		}
		if stands, err = o.Admit(ctx, confirmed, stands, life); err != nil {
			return err
		}
	}
	return a.published(stands)
}

// rosterFile is the path of the operator's copy of a roster generation.
func (a *admission) rosterFile(generation uint64) string {
	return filepath.Join(a.dir, "operator", fmt.Sprintf("roster-%d.json", generation))
}

// notOlder refuses to continue from a roster older than the last one published here: two of one generation would be
// signed.
func (a *admission) notOlder(stands *enroll.Standing) error {
	next := uint64(1)
	if stands != nil {
		next = stands.Generation + 1
	}
	if _, err := os.Stat(a.rosterFile(next)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was published, but the aggregator shows an older roster or none; restore its etcd from "+
			"a newer backup", a.rosterFile(next))
	}
	return nil
}

// connect reads the study's folder, and prepares the connection.
func (a *admission) connect() (*enroll.Operator, error) {
	config, err := student.LoadConnection(a.config)
	if err != nil {
		return nil, err
	}
	s, text, err := study.Read(filepath.Join(a.dir, "study.yaml"))
	if err != nil {
		return nil, fmt.Errorf("%w; name the study's folder with --dir", err)
	}
	schema, err := os.ReadFile(filepath.Join(a.dir, s.Schema))
	if err != nil {
		return nil, fmt.Errorf("read the study's schema: %w", err)
	}
	sum := sha256.Sum256(schema)
	a.study = s
	return enroll.NewOperator(s, text, hex.EncodeToString(sum[:]), provision.Authority(a.dir), config.TLS,
		func(reason string) { fmt.Fprintf(os.Stderr, "waiting for the aggregator (%s)\n", reason) })
}

// published stores the roster, completes the students' folders, and says what to read out.
func (a *admission) published(r *enroll.Standing) error {
	path := a.rosterFile(r.Generation)
	if err := kit.Place(path, r.Text, 0o644); err != nil {
		return err
	}
	var without []string
	whole := len(r.Sites) == len(a.study.Sites)
	if a.study.Masked && whole {
		for _, name := range a.study.Students {
			file := filepath.Join(a.dir, "students", name, provision.RunName)
			if err := kit.Place(file, provision.RunFile(a.study, name, r.Roster), 0o644); err != nil {
				without = append(without, name)
			}
		}
	}
	if *a.format == "json" {
		return cli.PrintJSON(map[string]any{"generation": r.Generation, "sites": r.Keys(), "roster": path,
			"fingerprint": r.Fingerprint()})
	}
	fmt.Printf("roster of generation %d, with %d of %d sites:\n", r.Generation, len(r.Sites),
		len(a.study.Sites))
	w := cli.Columns()
	for _, s := range r.Sites {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, certs.SpellFingerprint(s.Key))
	}
	_ = w.Flush()
	fmt.Printf("read out its fingerprint to every site:\n  %s\n", certs.SpellFingerprint(r.Fingerprint()))
	if a.study.Masked && !whole {
		fmt.Println("the students' run.yaml files are written after all sites are admitted, because they name the " +
			"sites' keys")
	}
	for _, name := range without {
		fmt.Fprintf(os.Stderr, "the run.yaml of %s was not written: its folder is missing, or has another run.yaml; "+
			"take the members from %s\n", name, path)
	}
	return nil
}
