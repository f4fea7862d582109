package proving

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report/text"
)

func bundleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bundle --from DIR --out FILE.zip [--format text|json]",
		Short: "pack the results of a run and their proof for other people",
		Long: `Packs rows, model, schema, certificate, ledger, signatures and the report without real rows into a zip
file, with a README for the recipient. The bundle has no state of the run and no names of a site's files.
The same run always gives the same bytes.`,
	}
	from := c.Flags().String("from", "", "output `folder` of a finished run")
	out := c.Flags().String("out", "", "the zip `file` to write")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *from == "" || *out == "" {
			return cli.Misuse("--from and --out: give the output folder of a finished run, and the file to write")
		}
		return bundle(*from, *out, *format)
	}
	return c
}

func bundle(from, out, format string) error {
	folder, err := proof.OpenFolder(from)
	if err != nil {
		return fmt.Errorf("%w; give the output folder of a finished run", err)
	}
	defer folder.Close()
	b, found, err := proof.Pack(folder)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %s already exists; remove it, or give another file", out)
	}
	f, err := renameio.NewPendingFile(out, renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	defer f.Cleanup()
	if err := b.Write(f); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if format == "json" {
		return cli.PrintJSON(struct {
			Run   string `json:"run"`
			Files int    `json:"files"`
			Out   string `json:"out"`
		}{found.Run, len(b), out})
	}
	fmt.Printf("%s: %s of run %s\n", out, text.Several(len(b), "file"), found.Run)
	fmt.Println("the recipient checks it with: conclave verify", text.ShellWord(out), "--authority ca.crt")
	if own := proof.OwnAuthority(from); own != "" {
		fmt.Printf("this run on one machine has an authority of its own: give the recipient %s as well, by another "+
			"way; it proves that nobody changed the files on the way\n", own)
	} else if earlier := found.Certificate.Earlier; len(earlier) > 0 {
		fmt.Printf("ca.crt is the authority of run %s; if that was a run on one machine, give the recipient "+
			"state/certs/ca.crt of its output folder\n", earlier[0])
	}
	if found.Worst() == proof.Missing {
		fmt.Println("a signature is missing; run conclave verify to see whose")
	}
	return nil
}
