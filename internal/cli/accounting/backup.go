package accounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/coordinator/backup"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/cli"
)

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup --config FILE --out FILE",
		Short: "copy the ledger and all other keys of an external etcd to a file",
		Long: `Copies the ledger and all other keys of one moment, even while aggregators write. The etcd user
needs the right to read the prefix, and no other right. What is spent later is not in the file: read docs/backup.md
before a restore.`,
	}
	config := c.Flags().String("config", "", "an aggregator's YAML `file`, whose etcd section is used")
	out := c.Flags().String("out", "", "`file` to write; it must not exist")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *config == "" || *out == "" {
			return cli.Misuse("--config and --out: give the aggregator's file and the file to write")
		}
		return withStore(c.Context(), *config, func(ctx context.Context, store *coordinator.Store) error {
			return writeBackup(ctx, store, *out)
		})
	}
	return c
}

func restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore --config FILE --from FILE",
		Short: "put a backup of the ledger into an empty etcd",
		Long: `Puts a backup of the ledger into an empty etcd. Do this only if the ledger is lost, and stop all
aggregators before. The restored ledger does not know what was spent since the backup: docs/backup.md says what to
compare before new runs start.`,
	}
	config := c.Flags().String("config", "", "an aggregator's YAML `file`, whose etcd section is used")
	from := c.Flags().String("from", "", "`file` that conclave ledger backup wrote")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *config == "" || *from == "" {
			return cli.Misuse("--config and --from: give the aggregator's file and the backup")
		}
		return withStore(c.Context(), *config, func(ctx context.Context, store *coordinator.Store) error {
			return readBackup(ctx, store, *from)
		})
	}
	return c
}

func withStore(ctx context.Context, path string, do func(context.Context, *coordinator.Store) error) error {
	etcd, err := aggregator.LoadEtcd(path)
	if err != nil {
		return err
	}
	store, err := etcd.OpenStore(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, store), store.Close())
}

// writeBackup writes a complete file that only its owner can read, or none.
func writeBackup(ctx context.Context, store *coordinator.Store, path string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %s already exists; give another file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum, err := backup.Write(ctx, store, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Printf("%s: %d keys, SHA-256 %s\n", path, sum.Keys, sum.SHA256)
	return nil
}

func readBackup(ctx context.Context, store *coordinator.Store, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	sum, err := backup.Restore(ctx, store, f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Printf("%s: restored %d keys; compare the ledger with the newest certificate before you start an aggregator\n",
		path, sum.Keys)
	return nil
}
