package rows

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// maxShards far exceeds the number of a site's nodes.
const maxShards = 10000

// shardFlags say what to split, and the destination.
type shardFlags struct {
	schema, data, out string
	shards            int
	format            *string
}

func shardCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "shard --schema FILE --data FILE --shards N --out DIR",
		Short: "divide a site's rows into one file per node",
	}
	var o shardFlags
	f := c.Flags()
	f.StringVar(&o.schema, "schema", "", "the public schema.yaml, a `file`")
	f.StringVar(&o.data, "data", "", "`file` of the site's rows")
	f.IntVar(&o.shards, "shards", 0, "number of shards, one per node")
	f.StringVar(&o.out, "out", "", "`folder` for shard-0.csv.gz and so on; shards are as private as the site's rows")
	o.format = cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o.schema == "" || o.data == "" || o.out == "" {
			return cli.Misuse("--schema, --data, --shards and --out are required")
		}
		if o.shards < 1 || o.shards > maxShards {
			return cli.Misuse("--shards %d: use 1 to %d", o.shards, maxShards)
		}
		return shard(c.Context(), o)
	}
	return c
}

// shard splits a site's file into one for each of its nodes.
func shard(ctx context.Context, o shardFlags) error {
	schema, err := partition.LoadSchema(o.schema)
	if err != nil {
		return err
	}
	table, err := tabular.Read(schema, o.data, tabular.Options{Warn: cli.Warn})
	if err != nil {
		return err
	}
	shards, err := table.Shards(o.shards)
	if err != nil {
		return fmt.Errorf("%s: %w", o.data, err)
	}
	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return fmt.Errorf("create the folder of shards: %w", err)
	}
	paths := make([]string, o.shards)
	for i := range paths {
		paths[i] = filepath.Join(o.out, fmt.Sprintf("shard-%d.csv.gz", i))
		// All are checked before the first is written: part of one set beside another would share persons.
		if _, err := os.Lstat(paths[i]); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s already exists; give another folder, or move the earlier shards away", paths[i])
		}
	}
	for i, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeShard(path, shards[i]); err != nil {
			return err
		}
	}
	if *o.format == "json" {
		return cli.PrintJSON(map[string]any{"shards": paths})
	}
	fmt.Printf("%d shards in %s, one for each node of a site; no privacy unit is in two of them\n", o.shards, o.out)
	return nil
}

// writeShard writes a gzipped CSV file that only its owner can read.
func writeShard(path string, t *partition.Table) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write a shard: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(path)))
		}
	}()
	zipped := gzip.NewWriter(f)
	if err := tabular.WriteCSV(zipped, t); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	return f.Sync()
}
