package study

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
		Short: "admit the sites whose fingerprints people read out, and publish the roster",
		Long: `Waits for the sites' requests, shows the fingerprint of each key, and asks whether it is the one that the
site reads out by telephone. When all sites of the study are confirmed it signs their certificates by the authority's
key, which stays on this machine, and publishes the roster. Read its fingerprint out to the sites: all have to see the
same.`,
	}
	var a admission
	f := c.Flags()
	f.StringVar(&a.config, "config", "", "the operator's YAML `file`, operator/operator.yaml of the study's folder")
	f.StringVar(&a.dir, "dir", "", "the study's `folder`; by default the one that the file's folder is in")
	f.StringToStringVar(&a.told, "confirm", nil, "`SITE=FINGERPRINT` as the site read it out, 32 hex digits or "+
		"more of it")
	f.BoolVar(&a.partial, "partial", false, "admit the sites that ask now, and do not wait for the others")
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

// admission is how an operator admits the sites of a study.
type admission struct {
	config, dir string
	told        map[string]string // fingerprints by site, as people read them out
	partial     bool
	format      *string

	study *study.Study
	input *bufio.Reader
}

func (a *admission) run(ctx context.Context) error {
	o, err := a.connect()
	if err != nil {
		return err
	}
	defer o.Close()
	for site := range a.told {
		if !slices.Contains(a.study.Sites, site) {
			return fmt.Errorf("--confirm %s=...: the study has no such site, but %s", site,
				strings.Join(a.study.Sites, ", "))
		}
	}
	a.input = bufio.NewReader(os.Stdin)
	confirmed, stands, err := a.confirmed(ctx, o)
	if err != nil {
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
	schema, err := os.ReadFile(filepath.Join(a.dir, "schema.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the study's schema: %w", err)
	}
	sum := sha256.Sum256(schema)
	a.study = s
	return enroll.NewOperator(s, text, hex.EncodeToString(sum[:]), provision.Authority(a.dir), config.TLS,
		func(reason string) { fmt.Fprintf(os.Stderr, "waiting for the aggregator (%s)\n", reason) })
}

// confirmed waits for requests, and returns those whose fingerprints are right, once all sites are in, or for the
// roster that stands.
func (a *admission) confirmed(ctx context.Context, o *enroll.Operator) ([]enroll.Asking, *enroll.Standing, error) {
	right := map[string]enroll.Asking{}
	shown := map[string]bool{}
	waited := ""
	for {
		asking, stands, err := o.Look(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, q := range asking {
			if q.Refused != nil {
				if !shown[q.Site] {
					fmt.Fprintf(os.Stderr, "site %s cannot be admitted: %v\n", q.Site, q.Refused)
					shown[q.Site] = true
				}
				continue
			}
			if held, ok := right[q.Site]; ok && held.Fingerprint == q.Fingerprint {
				continue
			}
			if err := a.confirm(q); err != nil {
				return nil, nil, err
			}
			right[q.Site] = q
		}
		var missing []string
		for _, site := range a.study.Sites {
			_, ok := right[site]
			if !ok && (stands == nil || stands.Site(site) == nil) {
				missing = append(missing, site)
			}
		}
		if len(missing) == 0 || a.partial {
			return inOrder(right), stands, a.enough(right, stands)
		}
		if text := strings.Join(missing, ", "); text != waited {
			fmt.Fprintf(os.Stderr, "waiting for %s\n", text)
			waited = text
		}
		o.Wait(ctx)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// enough refuses a roster without sites.
func (a *admission) enough(right map[string]enroll.Asking, stands *enroll.Standing) error {
	if len(right) == 0 && stands == nil {
		return errors.New("no site asks to be admitted; run it again when one has joined, or without --partial")
	}
	return nil
}

func inOrder(sites map[string]enroll.Asking) []enroll.Asking {
	var all []enroll.Asking
	for _, s := range sites {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y enroll.Asking) int { return strings.Compare(x.Site, y.Site) })
	return all
}

// confirm has a person, or a flag, say that a site reads out the fingerprint of its request.
func (a *admission) confirm(q enroll.Asking) error {
	fmt.Fprintf(os.Stderr, "site %s asks since %s with the key\n  %s\n", q.Site, q.Received,
		certs.SpellFingerprint(q.Fingerprint))
	if q.Replaced > 0 {
		fmt.Fprintf(os.Stderr, "  it took the place of another key, %d times: ask the site how often it began anew\n",
			q.Replaced)
	}
	if told, ok := a.told[q.Site]; ok {
		if err := certs.CheckFingerprint(told, q.Fingerprint, certs.LeastFingerprint); err != nil {
			return fmt.Errorf("site %s is not admitted: %w", q.Site, err)
		}
		return nil
	}
	fmt.Fprintf(os.Stderr, "is this what %s reads out to you? yes or no: ", q.Site)
	answer, _ := a.input.ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("site %s is not admitted; have it join again and answer yes, or give --confirm "+
			"%s=FINGERPRINT", q.Site, q.Site)
	}
	return nil
}

// published keeps the roster, completes the students' folders, and says what to read out.
func (a *admission) published(r *enroll.Standing) error {
	path := filepath.Join(a.dir, "operator", fmt.Sprintf("roster-%d.json", r.Generation))
	if err := kit.Place(path, r.Text, 0o644); err != nil {
		return err
	}
	var without []string
	if a.study.Masked && r.Generation == 1 {
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
	fmt.Printf("the roster of generation %d stands, with %d of %d sites:\n", r.Generation, len(r.Sites),
		len(a.study.Sites))
	w := cli.Columns()
	for _, s := range r.Sites {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, certs.SpellFingerprint(s.Key))
	}
	_ = w.Flush()
	fmt.Printf("read its fingerprint out to every site:\n  %s\n", certs.SpellFingerprint(r.Fingerprint()))
	for _, name := range without {
		fmt.Fprintf(os.Stderr, "the run.yaml of %s was not written: its folder is gone, or has another one; its runs "+
			"name the members that %s lists\n", name, path)
	}
	return nil
}
