package teacher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/preflight"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/study/enroll"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/roster"
)

// joinCommand takes a site from its start kit to a node that can start.
func joinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "join KIT.zip --data FILE [--dir DIR] [--confirm-roster FINGERPRINT]",
		Short: "join a study with the site's start kit: key, request, roster, policy, preflight",
		Long: `Joins a study with the site's start kit. The command shows the study, makes the site's key on this
machine, and sends a request to the aggregator. It prints the key's fingerprint: read it out to the operator by
telephone.

The command then waits until the operator has admitted the sites. It shows who takes part, and asks a person to
confirm that the other sites see the same roster fingerprint. It writes the certificate, the policy and the node's
configuration, and checks everything that the node needs.

If it is interrupted, run the same command again: it continues.`,
		Args: cli.OneArgument("the path of the site's kit"),
	}
	var j joining
	f := c.Flags()
	f.StringVar(&j.data, "data", "", "`file` of the site's records, in any form that a node's field data takes")
	f.StringVar(&j.dir, "dir", "", "`folder` for the key, certificate and configuration (default: the site's name)")
	f.StringVar(&j.told, "confirm-roster", "", "the roster's `fingerprint`, as the other sites and the operator see it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if j.data == "" {
			return cli.Misuse("--data: name the file of the site's records")
		}
		err := j.run(c.Context(), args[0])
		return cli.Interrupted(c.Context(), err, "interrupted; run the same command to continue")
	}
	return c
}

// joining is the state of a site's join.
type joining struct {
	data, dir, told string
}

func (j *joining) run(ctx context.Context, path string) error {
	data, err := foundData(j.data)
	if err != nil {
		return err
	}
	k, hash, err := kit.Read(path)
	if err != nil {
		return err
	}
	if end, err := k.Study.End(); err != nil || !time.Now().Before(end) {
		return fmt.Errorf("%s: the study ended on %s; ask the operator", path, k.Study.Expires)
	}
	if j.dir == "" {
		j.dir = k.Site
	}
	fmt.Printf("start kit of %s, SHA-256 %s\n\n%s\n", k.Site, certs.SpellFingerprint(hash), k.Study.Words())
	s, err := enroll.Begin(k, j.dir, func(reason string) {
		fmt.Fprintf(os.Stderr, "waiting for the aggregator (%s)\n", reason)
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := checkRows(s, data); err != nil {
		return err
	}
	if err := j.ask(ctx, s); err != nil {
		return err
	}
	r, err := s.Wait(ctx)
	if err != nil {
		return err
	}
	before := s.Joined()
	if err := j.confirm(ctx, s, r); err != nil {
		return err
	}
	if err := s.Install(r, data); err != nil {
		return err
	}
	return finish(ctx, s, r, before)
}

// foundData is the absolute path of data, because the node may start elsewhere. The node's check finds what a pattern
// or a sheet names.
func foundData(data string) (string, error) {
	file, _, _ := strings.Cut(data, "#")
	if found, err := filepath.Glob(file); err != nil || len(found) == 0 {
		return "", fmt.Errorf("--data: %s does not exist", file)
	}
	return filepath.Abs(data)
}

// checkRows refuses records with which the node could not start, before anybody is asked to compare fingerprints. It
// writes nothing.
func checkRows(s *enroll.Site, data string) error {
	if s.Joined() {
		return nil
	}
	c := node.DefaultConfig()
	c.Dataset, c.Site, c.Unit, c.Overlap = s.Study.Dataset, s.Site, s.Study.Unit, s.Study.Overlap
	c.Schema, c.Data, c.Teachers = filepath.Join(s.Dir, "schema.yaml"), data, s.Study.Teachers
	c.State = filepath.Join(s.Dir, "state")
	c.TLS = certs.IssuedFiles(s.Dir, certs.RoleNode, s.Site) // not read
	if _, err := node.ReadSite(c, kinds.All(), nil); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// ask sends the request and shows what to read out.
func (j *joining) ask(ctx context.Context, s *enroll.Site) error {
	if s.Joined() {
		return nil
	}
	replaced, err := s.Ask(ctx)
	if err != nil {
		return err
	}
	if replaced != "" {
		fmt.Printf("the site already had a request, with the key %s; if nobody here made it, tell the operator\n",
			replaced)
	}
	fmt.Printf("call the operator (%s), compare the kit's SHA-256, and read out the fingerprint of this site's key:\n"+
		"  %s\n", s.Study.Contact, certs.SpellFingerprint(s.Fingerprint))
	fmt.Fprintln(os.Stderr, "waiting for the roster; if this command is interrupted, run it again to continue")
	return nil
}

// confirm requires a person, or the flag, to confirm that all see the same roster.
func (j *joining) confirm(ctx context.Context, s *enroll.Site, r *enroll.Standing) error {
	if s.Confirmed(r) {
		return nil
	}
	fmt.Printf("\nroster of generation %d, with %d of %d sites:\n", r.Generation, len(r.Sites),
		len(s.Study.Sites))
	w := cli.Columns()
	for _, other := range r.Sites {
		name := other.Name
		if name == s.Site {
			name += " (here)"
		}
		fmt.Fprintf(w, "  %s\t%s\n", name, certs.SpellFingerprint(other.Key))
	}
	_ = w.Flush()
	fmt.Printf("its fingerprint, which the operator and all other sites must see too:\n  %s\n",
		certs.SpellFingerprint(r.Fingerprint()))
	if j.told != "" {
		if err := certs.CheckFingerprint(j.told, r.Fingerprint(), roster.FingerprintDigits); err != nil {
			return fmt.Errorf("--confirm-roster: %w", err)
		}
		return nil
	}
	if !cli.Confirm(ctx, "do they see the same fingerprint?") {
		return errors.New("not joined; if a fingerprint differs, tell the operator and do not join; else run the " +
			"command again, and answer yes or give --confirm-roster FINGERPRINT")
	}
	return nil
}

// finish checks what the node needs, and says how to start it.
func finish(ctx context.Context, s *enroll.Site, r *enroll.Standing, before bool) error {
	if before && s.Study.Masked {
		fmt.Printf("%s has already joined; edit %s by hand, with the peers of this roster:\n%s", s.Site,
			s.PolicyFile(), enroll.Peers(s.Site, r.Roster))
	}
	report := preflight.Run(ctx, preflight.Options{Config: s.NodeFile()})
	fmt.Println()
	showReport(report)
	if !report.OK {
		return &cli.ExitError{Code: 1, Err: fmt.Errorf("%s has joined, but its node cannot start yet: fix the "+
			"problems above, and check again with teacher preflight --config %s", s.Site, text.ShellWord(s.NodeFile()))}
	}
	fmt.Printf("\n%s has joined study %s; its policy is in %s\nnext:\n  teacher --config %s\n", s.Site, s.Study.Name,
		s.PolicyFile(), text.ShellWord(s.NodeFile()))
	fmt.Printf("when a run waits for approval, read what it asks for, then approve it:\n"+
		"  teacher runs --config %[1]s RUN\n  teacher approve --config %[1]s RUN\n", text.ShellWord(s.NodeFile()))
	return nil
}
