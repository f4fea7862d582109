// Package study has the commands of a study: its document, its folder, and the admission of its sites.
package study

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/provision"
)

// Command sets up a study of several institutions.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "study COMMAND",
		Short: "set up a study of several sites",
		Long: `Sets up a study of several sites from a file with their agreement. docs/tutorial-study.md shows
all steps. Sites join with their start kits: teacher join KIT.zip --data FILE.`,
	}
	c.AddCommand(initCommand(), makeCommand(), admitCommand())
	return c
}

func initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "init [--out study.yaml]",
		Short: "write a study.yaml template",
	}
	out := c.Flags().String("out", "study.yaml", "`file` to write; it must not exist")
	c.RunE = func(*cobra.Command, []string) error {
		f, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("--out: %s already exists; give another file", *out)
		}
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		_, err = f.WriteString(provision.Template)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", *out, err)
		}
		fmt.Printf("wrote %s; fill it in, then: conclave study make %s --out DIR\n", *out, text.ShellWord(*out))
		return nil
	}
	return c
}

func makeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "make study.yaml --out DIR",
		Short: "create the study's folder, with the authority and a start kit for each site",
		Long: `Creates the folder of a study: the authority, the files of aggregator, worker and operator, a folder for
each student and a start kit for each site. It overwrites no file. If it is interrupted, run it again to continue.`,
		Args: cli.OneArgument("the path of a study.yaml"),
	}
	out := c.Flags().String("out", "", "`folder` to create; it will contain the authority's key")
	format := cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *out == "" {
			return cli.Misuse("--out: give a folder")
		}
		if err := known(args[0]); err != nil {
			return err
		}
		s, kits, err := provision.Make(args[0], *out)
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(map[string]any{"study": s.Name, "out": *out, "kits": kits})
		}
		showMade(s, *out, kits)
		return nil
	}
	return c
}

func showMade(s *study.Study, dir string, kits []provision.Kit) {
	at := func(path ...string) string { return filepath.Join(append([]string{dir}, path...)...) }
	fmt.Printf("study %s is in %s; keep %s on this machine\n\n", s.Name, dir,
		filepath.Join(provision.Authority(dir), "ca.key"))
	fmt.Println("send each site its kit, and read out the kit's SHA-256 by telephone:")
	w := cli.Columns()
	for _, k := range kits {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", k.Site, k.Path, certs.SpellFingerprint(k.SHA256))
	}
	_ = w.Flush()
	word := func(path ...string) string { return text.ShellWord(at(path...)) }
	fmt.Printf("\nnext:\n  aggregator --config %s\n  student --config %s\n", word("aggregator", "aggregator.yaml"),
		word("worker", "worker.yaml"))
	fmt.Printf("  conclave study admit --config %s\n", word("operator", "operator.yaml"))
	when := ""
	if s.Masked {
		when = " after the sites are admitted, because its run.yaml names their keys"
	}
	fmt.Printf("send each student a folder below %s%s\n", at("students"), when)
}

// known refuses a study with pipelines or stages that no site's policy could allow.
func known(path string) error {
	s, _, err := study.Read(path)
	if err != nil {
		return err
	}
	var p config.Problems
	for _, of := range []struct {
		field       string
		names, have []string
	}{{"pipelines", s.Pipelines, sitepolicy.Pipelines()}, {"stages", s.Stages, sitepolicy.Stages()}} {
		for _, name := range of.names {
			p.Need(slices.Contains(of.have, name), "%s: %s: %q is not available; use %s", path, of.field, name,
				strings.Join(of.have, ", "))
		}
	}
	return errors.Join(p...)
}
